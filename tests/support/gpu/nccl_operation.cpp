// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gpu/nccl_operation.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

namespace hvd::test::gpu {
namespace {

bool is_message(const NcclOperation& operation) {
    return operation.call == Call::send || operation.call == Call::recv;
}

std::size_t bytes_of(const NcclOperation& operation) {
    return element_bytes(operation.reduction.type);
}

std::size_t at(int rank) {
    return static_cast<std::size_t>(rank);
}

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
    if (bytes != 0) {
        std::memcpy(to, from, bytes);
    }
}

}  // namespace

/// How much a rank puts in.
std::size_t GroupRun::input_elements(const NcclOperation& operation) const {
    return operation.call == Call::reduce_scatter ? operation.count * at(place_.ranks)
                                                  : operation.count;
}

std::uint64_t GroupRun::signature_of(const NcclOperation& operation) const {
    std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(operation.call), std::uint64_t{operation.count},
          static_cast<std::uint64_t>(operation.reduction.type),
          static_cast<std::uint64_t>(operation.reduction.op),
          static_cast<std::uint64_t>(operation.peer), std::uint64_t{operation.in_registered},
          std::uint64_t{operation.out_registered}, place_.rounds}) {
        hash = (hash ^ value) * 0x100000001b3;
    }
    return hash;
}

void GroupRun::touch_all(const NcclOperation& operation, const Touch& touch) const {
    const auto bytes = bytes_of(operation) * operation.count;
    const auto all = bytes * at(place_.ranks);
    const bool is_root = operation.peer == place_.rank;
    switch (operation.call) {
        case Call::all_reduce:
            touch({operation.in, bytes, false});
            touch({operation.out, bytes, true});
            break;
        case Call::all_gather:
            touch({operation.in, bytes, false});
            touch({operation.out, all, true});
            break;
        case Call::reduce_scatter:
            touch({operation.in, all, false});
            touch({operation.out, bytes, true});
            break;
        case Call::broadcast:
            touch({is_root ? operation.in : operation.out, bytes, !is_root});
            touch({operation.out, bytes, true});
            break;
        case Call::reduce:
            touch({operation.in, bytes, false});
            touch({is_root ? operation.out : operation.in, bytes, is_root});
            break;
        case Call::send: touch({operation.in, bytes, false}); break;
        case Call::recv: touch({operation.out, bytes, true}); break;
    }
}

bool GroupRun::step(const Touch& touch, std::string& what_is_wrong) {
    if (is_wrong_) {
        return false;
    }
    for (std::size_t index = 0; index < operations_.size(); ++index) {
        auto& state = states_[index];
        if (state.is_over) {
            continue;
        }
        if (!std::exchange(state.is_touched, true)) {
            touch_all(operations_[index], touch);
        }
        if (!is_message(operations_[index])) {
            state.is_over = collective(index, what_is_wrong);
            if (!state.is_over) {
                is_wrong_ = !what_is_wrong.empty();
                return false;
            }
        }
    }
    messages(what_is_wrong);
    is_wrong_ = !what_is_wrong.empty();
    return std::ranges::all_of(states_, &State::is_over);
}

/// As many rounds as the input has chunks, one at least. In each, every rank writes its part into
/// its own chunk and reads the parts of all.
bool GroupRun::collective(std::size_t index, std::string& what_is_wrong) {
    const auto& operation = operations_[index];
    auto& state = states_[index];
    auto& areas = place_.segment->areas;
    auto& own = areas[at(place_.rank)];
    const std::size_t per_round = kChunk / bytes_of(operation);
    const std::size_t elements = input_elements(operation);
    const std::size_t rounds = std::max<std::size_t>(1, (elements + per_round - 1) / per_round);
    while (state.round < rounds) {
        const auto first = state.round * per_round;
        const auto count = std::min(per_round, elements - std::min(elements, first));
        for (int rank = 0; rank < place_.ranks; ++rank) {
            if (!state.is_written && areas[at(rank)].consumed.load() < place_.rounds) {
                return false;
            }
        }
        if (!std::exchange(state.is_written, true)) {
            const bool gives = operation.call != Call::broadcast || operation.peer == place_.rank;
            copy_bytes(own.chunk.data(), operation.in + first * bytes_of(operation),
                       gives ? count * bytes_of(operation) : 0);
            own.signature.store(signature_of(operation));
            own.written.store(place_.rounds + 1);
        }
        for (int rank = 0; rank < place_.ranks; ++rank) {
            if (areas[at(rank)].written.load() <= place_.rounds) {
                return false;
            }
            if (areas[at(rank)].signature.load() != signature_of(operation)) {
                what_is_wrong = "ranks " + std::to_string(place_.rank) + " and " +
                                std::to_string(rank) +
                                " of a communicator run different collectives at the same time";
                return false;
            }
        }
        take_results(operation, first, count);
        own.consumed.store(++place_.rounds);
        state.is_written = false;
        ++state.round;
    }
    return true;
}

void GroupRun::take_results(const NcclOperation& operation,
                            std::size_t first,
                            std::size_t count) const {
    auto& areas = place_.segment->areas;
    const auto bytes = bytes_of(operation);
    std::vector<const std::byte*> inputs;
    for (int rank = 0; rank < place_.ranks; ++rank) {
        inputs.push_back(areas[at(rank)].chunk.data());
    }
    switch (operation.call) {
        case Call::all_reduce:
            reduce(operation.reduction, inputs, operation.out + first * bytes, count);
            break;
        case Call::reduce:
            if (operation.peer == place_.rank) {
                reduce(operation.reduction, inputs, operation.out + first * bytes, count);
            }
            break;
        case Call::broadcast:
            copy_bytes(operation.out + first * bytes, inputs[at(operation.peer)], count * bytes);
            break;
        case Call::all_gather:
            for (int rank = 0; rank < place_.ranks; ++rank) {
                copy_bytes(operation.out + (at(rank) * operation.count + first) * bytes,
                           inputs[at(rank)], count * bytes);
            }
            break;
        case Call::reduce_scatter: {
            // The part of this round that is in this rank's block.
            const auto begin = at(place_.rank) * operation.count;
            const auto from = std::max(begin, first);
            const auto to = std::min(begin + operation.count, first + count);
            if (from < to) {
                for (auto& input : inputs) {
                    input += (from - first) * bytes;
                }
                reduce(operation.reduction, inputs, operation.out + (from - begin) * bytes,
                       to - from);
            }
            break;
        }
        case Call::send:
        case Call::recv: break;
    }
}

/// Of two messages on one way the second waits for the first.
void GroupRun::messages(std::string& what_is_wrong) {
    std::set<std::pair<Call, int>> is_taken;
    for (std::size_t index = 0; index < operations_.size(); ++index) {
        const auto& operation = operations_[index];
        auto& state = states_[index];
        if (state.is_over || !is_message(operation) ||
            !is_taken.insert({operation.call, operation.peer}).second) {
            continue;
        }
        state.is_over = operation.call == Call::send ? send(index) : receive(index, what_is_wrong);
    }
}

bool GroupRun::send(std::size_t index) {
    const auto& operation = operations_[index];
    auto& state = states_[index];
    auto& pair = place_.segment->pairs[at(place_.rank)][at(operation.peer)];
    const auto all = operation.count * bytes_of(operation);
    while (!state.is_begun || state.moved < all) {
        if (pair.written.load() != pair.read.load()) {
            return false;
        }
        state.is_begun = true;
        const auto bytes = std::min(kPairChunk, all - state.moved);
        pair.bytes = all;
        copy_bytes(pair.chunk.data(), operation.in + state.moved, bytes);
        state.moved += bytes;
        pair.written.fetch_add(1);
    }
    return true;
}

bool GroupRun::receive(std::size_t index, std::string& what_is_wrong) {
    const auto& operation = operations_[index];
    auto& state = states_[index];
    auto& pair = place_.segment->pairs[at(operation.peer)][at(place_.rank)];
    const auto all = operation.count * bytes_of(operation);
    while (!state.is_begun || state.moved < all) {
        if (pair.written.load() == pair.read.load()) {
            return false;
        }
        if (pair.bytes != all) {
            what_is_wrong = "rank " + std::to_string(operation.peer) + " sends " +
                            std::to_string(pair.bytes) + " bytes, rank " +
                            std::to_string(place_.rank) + " receives " + std::to_string(all);
            return false;
        }
        state.is_begun = true;
        const auto bytes = std::min(kPairChunk, all - state.moved);
        copy_bytes(operation.out + state.moved, pair.chunk.data(), bytes);
        state.moved += bytes;
        pair.read.fetch_add(1);
    }
    return true;
}

}  // namespace hvd::test::gpu
