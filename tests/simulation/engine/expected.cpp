// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/expected.hpp"

#include <algorithm>

namespace hvd::sim {
namespace {

using coll::Op;

const std::vector<int>& members_of(const Plan& plan, const Item& item) {
    return plan.sets[static_cast<std::size_t>(item.set)];
}

/// A number of the shape that stays as long as the version does.
std::int64_t shape_number(const Item& item, std::size_t tensor, int rank, std::uint64_t below) {
    const auto name = std::hash<std::string>{}(item.names[tensor]);
    return static_cast<std::int64_t>(
        mix(name, static_cast<std::uint64_t>(item.version), static_cast<std::uint64_t>(rank) + 7) %
        below);
}

std::vector<std::int64_t> splits_of(const Plan& plan, const Item& item, int rank) {
    std::vector<std::int64_t> splits;
    for (const int peer : members_of(plan, item)) {
        splits.push_back(shape_number(item, 0, rank * 16 + peer, 3));
    }
    return splits;
}

std::int64_t sum(std::span<const std::int64_t> numbers) {
    std::int64_t all = 0;
    for (const auto number : numbers) {
        all += number;
    }
    return all;
}

double combine(coll::ReduceOp op, double left, double right) {
    switch (op) {
        case coll::ReduceOp::min: return std::min(left, right);
        case coll::ReduceOp::max: return std::max(left, right);
        case coll::ReduceOp::product: return left * right;
        default: return left + right;
    }
}

}  // namespace

rt::Signature signature_of(const Plan& plan, const Item& item, std::size_t tensor, int rank) {
    rt::Signature signature{.op = item.op, .reduce = item.reduce, .type = item.type};
    signature.over_contributing = item.over_contributing;
    signature.wire = item.wire;
    switch (item.op) {
        case Op::allreduce: {
            const auto count = shape_number(item, tensor, 0, 5);
            if (count != 4) {
                signature.shape = {count};
            }
            break;
        }
        case Op::broadcast:
            signature.shape = {shape_number(item, tensor, 0, 5)};
            signature.root = item.root;
            break;
        case Op::reducescatter: signature.shape = {shape_number(item, tensor, 0, 12)}; break;
        case Op::allgather: signature.shape = {shape_number(item, tensor, rank, 4), 2}; break;
        case Op::alltoall:
            signature.splits = splits_of(plan, item, rank);
            signature.shape = {sum(signature.splits) + shape_number(item, tensor, rank, 2)};
            break;
        case Op::barrier: break;
    }
    if (item.culprit == rank) {
        signature.type = coll::DataType::u64;  // of the same size, and no other rank has it
        signature.wire = coll::Wire::own;
    }
    return signature;
}

std::vector<std::int64_t> input_of(const Plan& plan,
                                   const Item& item,
                                   std::size_t tensor,
                                   int rank) {
    if (item.op == Op::barrier) {
        return {};
    }
    const auto count = rt::element_count(signature_of(plan, item, tensor, rank).shape);
    std::vector<std::int64_t> values;
    for (std::size_t index = 0; index < count; ++index) {
        values.push_back(
            static_cast<std::int64_t>(1 + mix(static_cast<std::uint64_t>(item.id) * 4 + tensor,
                                              static_cast<std::uint64_t>(rank), index) %
                                              9));
    }
    return values;
}

bool must_fail(const Plan& plan, const Item& item, std::size_t phase) {
    if (item.culprit >= 0 && members_of(plan, item).size() > 1) {
        return true;
    }
    return !plan.joined(item, phase).empty() && item.op != Op::allreduce && item.op != Op::barrier;
}

std::vector<double> output_of(const Plan& plan,
                              const Item& item,
                              std::size_t tensor,
                              std::size_t phase,
                              int rank) {
    const auto& members = members_of(plan, item);
    const auto joined = plan.joined(item, phase);
    std::vector<double> output;
    const auto append = [&](std::span<const std::int64_t> values) {
        output.insert(output.end(), values.begin(), values.end());
    };
    if (item.op == Op::broadcast) {
        append(input_of(plan, item, tensor, item.root));
    } else if (item.op == Op::allgather) {
        for (const int peer : members) {
            append(input_of(plan, item, tensor, peer));
        }
    } else if (item.op == Op::alltoall) {
        const auto place =
            static_cast<std::size_t>(std::ranges::find(members, rank) - members.begin());
        for (const int peer : members) {
            const auto splits = splits_of(plan, item, peer);
            const auto input = input_of(plan, item, tensor, peer);
            append(std::span(input).subspan(
                static_cast<std::size_t>(sum(std::span(splits).first(place))),
                static_cast<std::size_t>(splits[place])));
        }
    } else if (item.op != Op::barrier) {
        int contributing = 0;
        for (const int peer : members) {
            if (std::ranges::find(joined, peer) != joined.end()) {
                continue;
            }
            const auto input = input_of(plan, item, tensor, peer);
            for (std::size_t index = 0; index < input.size(); ++index) {
                const auto value = static_cast<double>(input[index]);
                if (contributing == 0) {
                    output.push_back(value);
                } else {
                    output[index] = combine(item.reduce, output[index], value);
                }
            }
            ++contributing;
        }
        if (item.reduce == coll::ReduceOp::average) {
            const auto divisor =
                item.over_contributing ? contributing : static_cast<int>(members.size());
            for (auto& value : output) {
                value /= divisor;
            }
        }
        if (item.op == Op::reducescatter) {
            const auto size = static_cast<int>(members.size());
            const auto place = static_cast<int>(std::ranges::find(members, rank) - members.begin());
            const auto rows = static_cast<std::int64_t>(output.size());
            std::int64_t before = 0;
            for (int other = 0; other < place; ++other) {
                before += rt::share_of_rows(rows, other, size);
            }
            const auto own = rt::share_of_rows(rows, place, size);
            output = {output.begin() + before, output.begin() + before + own};
        }
    }
    return output;
}

}  // namespace hvd::sim
