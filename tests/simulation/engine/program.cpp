// SPDX-License-Identifier: Apache-2.0
#include "tests/simulation/engine/program.hpp"

#include "tests/simulation/engine/expected.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hvd::sim {
namespace {

std::string describe(const Item& item) {
    std::string text = "#" + std::to_string(item.id) + " (" + std::string(to_string(item.op));
    for (const auto& name : item.names) {
        text += " " + name;
    }
    return text + ")";
}

}  // namespace

Program::Program(World& world, int rank, std::size_t thread, std::size_t threads)
    : world_(world),
      rank_(rank),
      self_(world.rank(rank)),
      thread_(thread),
      threads_(threads),
      random_(mix(world.seed(), static_cast<std::uint64_t>(rank) * 16 + thread, 3)) {}

void Program::run() {
    const auto& phases = world_.plan().phases;
    for (phase_ = 0; phase_ < phases.size() && !self_.has_given_up; ++phase_) {
        wait_for_phase(phase_);
        const auto& phase = phases[phase_];
        const auto& traits = world_.traits();
        if (traits.leaver == rank_ && traits.leaves_before <= phase_) {
            world_.disturb();
            self_.has_given_up = true;
            break;
        }
        trace([&] { return "begins phase " + std::to_string(phase_); });
        if (phase.kind == Phase::Kind::work || phase.kind == Phase::Kind::burst) {
            if (!world_.plan().skips[phase_][static_cast<std::size_t>(rank_)]) {
                run_work(phase, phase_);
            }
        } else if (thread_ == 0) {
            if (phase.kind == Phase::Kind::join) {
                run_join();
            } else if (phase.kind == Phase::Kind::outside) {
                wait_outside();
            } else {
                run_change(phase, phase_);
            }
        }
        self_.thread_phase[thread_] = phase_ + 1;
        Scheduler::current().note_change();
    }
    for (const auto& pending : std::exchange(pending_, {})) {
        finish(pending);
    }
    finish_join();
    self_.thread_phase[thread_] = phases.size();
    Scheduler::current().note_change();
}

void Program::wait_for_phase(std::size_t index) {
    (void)Scheduler::current().wait("its other threads", [this, index] {
        return self_.has_given_up || std::ranges::all_of(self_.thread_phase, [&](std::size_t each) {
                   return each >= index;
               });
    });
}

/// As a program does that waits for a file of another rank, say.
void Program::wait_outside() {
    finish_join();
    const auto other =
        static_cast<int>(mix(world_.seed(), phase_, static_cast<std::uint64_t>(rank_)) %
                         static_cast<std::uint64_t>(world_.traits().ranks));
    (void)Scheduler::current().wait("rank " + std::to_string(other), [this, other] {
        const auto& phases = world_.rank(other).thread_phase;
        return world_.is_disturbed() ||
               (!phases.empty() &&
                std::ranges::all_of(phases, [&](std::size_t each) { return each >= phase_; }));
    });
}

void Program::pause() {
    if (random_.one_in(world_.traits().pause_one_in)) {
        auto& scheduler = Scheduler::current();
        const auto until =
            scheduler.now() +
            std::chrono::nanoseconds(random_.below(random_.one_in(4) ? 300'000 : 10'000));
        (void)scheduler.wait(
            "a pause", [] { return false; }, until);
    }
}

// ---- collectives --------------------------------------------------------------------------------

bool Program::takes_part(const Item& item) const {
    const bool is_alone = world_.plan().phases[phase_].kind == Phase::Kind::burst;
    const auto thread = is_alone ? 0
                                 : mix(world_.seed(), static_cast<std::uint64_t>(item.id),
                                       static_cast<std::uint64_t>(rank_)) %
                                       threads_;
    return world_.plan().is_member(item.set, rank_) && thread == thread_;
}

/// This thread's part of the phase: awaited items alone, others in batches. An empty batch
/// stands for the removal of the phase's set.
std::vector<std::vector<const Item*>> Program::draw_order(const Phase& phase) {
    std::vector<std::vector<const Item*>> order;
    for (const auto& item : phase.items) {
        if (item.is_awaited && takes_part(item)) {
            order.push_back({&item});
        }
    }
    if (phase.set >= 0 && thread_ == 0) {
        order.emplace_back();
    }
    for (const auto& item : phase.items) {
        if (item.is_awaited || !takes_part(item)) {
            continue;
        }
        const auto place = random_.below(order.size() + 1);
        // A call with an operation of a set that is gone is refused as a whole.
        const bool may_follow = place > 0 && !order[place - 1].empty() &&
                                !order[place - 1].front()->is_awaited && item.set != phase.set &&
                                order[place - 1].front()->set != phase.set;
        if (may_follow && random_.one_in(2)) {
            order[place - 1].push_back(&item);
        } else {
            order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), {&item});
        }
    }
    return order;
}

void Program::run_work(const Phase& phase, std::size_t index) {
    for (const auto& items : draw_order(phase)) {
        if (self_.has_given_up) {
            break;
        }
        pause();
        if (items.empty()) {
            run_change(phase, index);
        } else {
            run_items(items);
        }
    }
    for (const auto& pending : std::exchange(pending_, {})) {
        finish(pending);
    }
    if (thread_ == 0) {
        finish_join();
    }
}

void Program::append_requests(const Item& item,
                              Pending& pending,
                              std::vector<rt::Request>& requests) {
    const auto& plan = world_.plan();
    for (std::size_t tensor = 0; tensor < item.names.size(); ++tensor) {
        rt::Request request;
        request.name = item.names[tensor];
        request.signature = signature_of(plan, item, tensor, rank_);
        request.process_set = self_.set_ids.at(item.set);
        request.group = item.names.size() > 1 ? static_cast<std::uint64_t>(item.id) + 1 : 0;
        const auto input = input_of(plan, item, tensor, rank_);
        auto* const memory = self_.buffers.emplace_back(input.size() * 8 + 8).data();
        for (std::size_t index = 0; index < input.size(); ++index) {
            const auto real = static_cast<double>(input[index]);
            std::memcpy(memory + index * 8,
                        request.signature.type == coll::DataType::f64
                            ? static_cast<const void*>(&real)
                            : &input[index],
                        8);
        }
        request.in = memory;
        world_.fabric().name_input(rank_, memory, static_cast<TensorId>(item.id) * 4 + tensor + 1,
                                   request.process_set);
        const bool may_give_output =
            item.op == coll::Op::allreduce || item.op == coll::Op::broadcast;
        if (may_give_output && random_.one_in(2)) {
            request.has_out = true;
            if (random_.one_in(2)) {
                request.out = memory;  // in place
            } else {
                request.out = self_.buffers.emplace_back(input.size() * 8 + 8).data();
            }
        }
        requests.push_back(std::move(request));
    }
    pending.item = &item;
}

void Program::run_items(const std::vector<const Item*>& items) {
    std::vector<rt::Request> requests;
    std::vector<Pending> parts;
    for (const Item* item : items) {
        append_requests(*item, parts.emplace_back(), requests);
        trace(
            [&] { return std::string(item->is_awaited ? "runs " : "submits ") + describe(*item); });
    }
    std::vector<rt::Operation*> operations;
    if (items.front()->is_awaited) {
        auto outcome = engine().run(requests, operations, Deadline::never());
        if (operations.empty()) {
            check_failure(*items.front(), outcome.error());
            return;
        }
    } else {
        auto submitted = engine().submit(requests);
        if (!submitted) {
            for (const Item* item : items) {
                check_failure(*item, submitted.error());
            }
            return;
        }
        operations = *std::move(submitted);
    }
    std::size_t taken = 0;
    for (auto& part : parts) {
        const auto count = part.item->names.size();
        part.operations.assign(operations.begin() + static_cast<std::ptrdiff_t>(taken),
                               operations.begin() + static_cast<std::ptrdiff_t>(taken + count));
        taken += count;
        if (part.item->is_awaited) {
            finish(part);
        } else {
            pending_.push_back(std::move(part));
        }
    }
}

// ---- how operations end -------------------------------------------------------------------------

void Program::finish(const Pending& pending) {
    const auto& item = *pending.item;
    std::optional<Error> failure;
    for (std::size_t tensor = 0; tensor < pending.operations.size(); ++tensor) {
        auto& operation = *pending.operations[tensor];
        const auto outcome = engine().wait(operation, Deadline::never());
        if (!outcome) {
            failure = outcome.error();
        } else {
            check_result(item, tensor, operation);
        }
        if (auto released = self_.tickets->release(operation); !released) {
            Scheduler::current().fail(released.error().message);
        }
    }
    if (failure) {
        check_failure(item, *failure);
    } else {
        trace([&] { return "has " + describe(item); });
        world_.note_ending(item, rank_, Ending::ok);
    }
}

void Program::check_failure(const Item& item, const Error& error) {
    trace([&] { return describe(item) + " failed: " + error.message; });
    const auto& phase = world_.plan().phases[phase_];
    const bool is_removed = phase.set == item.set &&
                            (error.code == Errc::aborted || error.code == Errc::invalid_argument);
    const bool lacks_memory = world_.traits().allocation_fails_one_in != 0 &&
                              error.message.find("no memory") != std::string::npos;
    const bool is_mismatch = error.code == Errc::mismatch && must_fail(world_.plan(), item, phase_);
    if (is_mismatch || is_removed || lacks_memory) {
        world_.note_ending(item, rank_, Ending::failed);
    } else {
        give_up(describe(item) + ": " + error.message);
    }
}

void Program::give_up(const std::string& why) {
    if (!world_.is_disturbed()) {
        Scheduler::current().fail("rank " + std::to_string(rank_) +
                                  ": an operation failed that ought not to: " + why);
    }
    self_.has_given_up = true;
    Scheduler::current().note_change();
}

void Program::check_result(const Item& item, std::size_t tensor, const rt::Operation& operation) {
    const auto& plan = world_.plan();
    if (must_fail(plan, item, phase_)) {
        Scheduler::current().fail("rank " + std::to_string(rank_) + ": " + describe(item) +
                                  " ought to have failed");
    }
    const auto expected = output_of(plan, item, tensor, phase_, rank_);
    for (std::size_t index = 0; index < expected.size(); ++index) {
        double value = 0;
        if (item.type == coll::DataType::f64) {
            std::memcpy(&value, operation.out + index * 8, 8);
        } else {
            std::int64_t whole = 0;
            std::memcpy(&whole, operation.out + index * 8, 8);
            value = static_cast<double>(whole);
        }
        if (value != expected[index]) {
            Scheduler::current().fail("wrong result: rank " + std::to_string(rank_) + ", " +
                                      describe(item) + ", element " + std::to_string(index) +
                                      " is " + std::to_string(value) + ", not " +
                                      std::to_string(expected[index]));
        }
    }
}

// ---- who takes part -----------------------------------------------------------------------------

/// Adds or removes the phase's set.
void Program::run_change(const Phase& phase, std::size_t index) {
    rt::Request request;
    request.name = "set." + std::to_string(index);
    if (phase.kind == Phase::Kind::add) {
        request.signature.kind = rt::Kind::add_process_set;
        for (const int member : world_.plan().sets[static_cast<std::size_t>(phase.set)]) {
            request.signature.splits.push_back(member);
        }
    } else {
        request.signature.kind = rt::Kind::remove_process_set;
        request.signature.root = self_.set_ids.at(phase.set);
    }
    trace([&] { return "changes the process sets"; });
    std::vector<rt::Operation*> operations;
    const auto outcome = engine().run({&request, 1}, operations, Deadline::never());
    if (!outcome) {
        give_up("a change of process sets: " + outcome.error().message);
        return;
    }
    self_.set_ids[phase.set] = operations.front()->signature.root;
    (void)self_.tickets->release(*operations.front());
}

void Program::run_join() {
    finish_join();
    rt::Request request;
    request.name = "join";
    request.signature.kind = rt::Kind::join;
    trace([] { return "joins"; });
    const auto submitted = engine().submit({&request, 1});
    if (!submitted) {
        give_up("join: " + submitted.error().message);
        return;
    }
    self_.pending_join = submitted.value().front();
    if (random_.one_in(2)) {
        finish_join();  // else once the next phase has been submitted
    }
}

void Program::finish_join() {
    if (thread_ != 0 || self_.pending_join == nullptr) {
        return;
    }
    auto& join = *std::exchange(self_.pending_join, nullptr);
    if (const auto outcome = engine().wait(join, Deadline::never()); !outcome) {
        give_up("join: " + outcome.error().message);
    }
    (void)self_.tickets->release(join);
}

}  // namespace hvd::sim
