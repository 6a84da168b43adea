// SPDX-License-Identifier: Apache-2.0
//
// Exceptions in the engine's loop, on a caller's thread and on the engine's own.
#include "runtime/engine/engine.hpp"
#include "tests/unit/runtime/fake_backend.hpp"
#include "tests/unit/runtime/faulty_channel.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>

using hvd::Deadline;
using hvd::Errc;
using hvd::Error;
using hvd::Exception;
using hvd::rt::Engine;
using hvd::rt::Operation;
using hvd::rt::Outcome;
using hvd::rt::ProgressLock;
using hvd::test::FakeBackendState;
using hvd::test::float_request;
using std::chrono::milliseconds;

namespace {

constexpr std::chrono::seconds kLimit{5};

enum class Thrown { of_ours, of_the_library };
enum class Where { caller, engine };

Where this_thread() {
    std::array<char, 16> name{};
    (void)pthread_getname_np(pthread_self(), name.data(), name.size());
    return std::string_view(name.data()) == "hvd-engine" ? Where::engine : Where::caller;
}

/// A world of one whose channel throws in one method from a moment on, for good, on threads of one
/// kind.
class ThrowingEngine {
public:
    ThrowingEngine(std::string method, Where where, Thrown thrown, FakeBackendState traits)
        : method_(std::move(method)),
          where_(where),
          thrown_(thrown),
          backend_(std::move(traits)),
          engine_(setup(), tickets_) {}

    /// Runs operations until the channel or backend has thrown, on whichever thread. Gives the
    /// error of the last one, or nothing where it had ended before.
    template <class Run>
    [[nodiscard]] std::optional<Error> await_throw(Run run) {
        is_throwing_ = true;
        std::optional<Error> last;
        for (const auto limit = Deadline::in(kLimit); !has_thrown_;) {
            REQUIRE_FALSE(limit.has_passed());
            last = run();
            std::this_thread::sleep_for(milliseconds(1));  // the engine's thread goes to sleep
        }
        return last;
    }

    /// As hvd_run. How it failed, or nothing.
    [[nodiscard]] std::optional<Error> run(const std::string& name) {
        std::vector requests{float_request(name, {&value_, 1})};
        std::vector<Operation*> operations;
        const auto outcome = engine_.run(requests, operations, Deadline::in(kLimit));
        return end_of(outcome, operations);
    }

    /// As hvd_submit, and a wait that leaves all work to the engine's thread.
    [[nodiscard]] std::optional<Error> submit_and_sleep(const std::string& name) {
        std::vector requests{float_request(name, {&value_, 1})};
        auto operations = engine_.submit(requests);
        REQUIRE(operations);
        REQUIRE(hvd::rt::TicketTable::wait(*operations->front(), Deadline::in(kLimit)));
        return end_of(engine_.wait(*operations, Deadline::in(kLimit)), *operations);
    }

    [[nodiscard]] Engine& engine() { return engine_; }

private:
    std::optional<Error> end_of(const hvd::Result<Outcome>& outcome,
                                const std::vector<Operation*>& operations) {
        for (Operation* operation : operations) {
            CHECK(tickets_.release(*operation));
        }
        if (!outcome) {
            return outcome.error();
        }
        CHECK(*outcome == Outcome::finished);
        return std::nullopt;
    }

    void at(std::string_view method) {
        if (!is_throwing_ || method != method_ || this_thread() != where_) {
            return;
        }
        has_thrown_ = true;
        if (thrown_ == Thrown::of_ours) {
            throw Exception({Errc::unavailable, "the cable is cut"});
        }
        throw std::runtime_error("the cable is cut");
    }

    Engine::Setup setup() {
        hvd::rt::Executor::Setup executor;
        executor.backends.all.push_back(hvd::test::make_fake_backend(backend_));
        executor.backends.select = hvd::test::select_first;
        return {.progress = {.reactor = std::make_unique<hvd::coll::Reactor>(),
                             .channel = std::make_unique<hvd::test::FaultyChannel>(
                                 [this](std::string_view method) { at(method); }),
                             .coordinator = hvd::rt::Coordinator(
                                 1, {.capacity = 1000, .ids = 2000, .quarantine = 100}),
                             .executor = std::move(executor),
                             .config = {},
                             .on_peer_lost = {}},
                .world = {.id = 0, .ranks = {0}, .place = 0, .hosts = {0}}};
    }

    std::string method_;
    Where where_;
    Thrown thrown_;
    std::atomic<bool> is_throwing_ = false;
    std::atomic<bool> has_thrown_ = false;
    FakeBackendState backend_;
    float value_ = 1;
    hvd::rt::TicketTable tickets_;
    Engine engine_;
};

/// Gives the action's result, of another thread. If it never ends, ctest's time limit does.
template <class Action>
auto elsewhere(Action action) {
    return std::async(std::launch::async, action).get();
}

}  // namespace

TEST_CASE(
    "an exception on a caller's thread ends the world by its cause, and other threads go on") {
    const auto* const method = GENERATE("poll", "about_to_sleep", "awake", "is_oversubscribed");
    const auto thrown = GENERATE(Thrown::of_ours, Thrown::of_the_library);
    CAPTURE(method, static_cast<int>(thrown));
    ThrowingEngine rank(method, Where::caller, thrown, {.polls_until_done = 1});
    CHECK_FALSE(rank.run("warm"));

    const auto at_once = rank.await_throw([&] { return rank.run("x"); });

    const std::string cause = "the cable is cut; '";
    if (at_once) {  // else it was there before this thread has announced its sleep
        CHECK(at_once->message == cause + "x' (allreduce) was not finished");
    }
    const auto later = elsewhere([&] { return rank.run("y"); });
    REQUIRE(later);
    CHECK(later->message == cause + "y' (allreduce) was not finished");
    CHECK(later->code == (thrown == Thrown::of_ours ? Errc::unavailable : Errc::internal));
    CHECK(elsewhere([&] { return rank.submit_and_sleep("z"); }));
    CHECK(elsewhere([&] { return rank.engine().metrics().operations.size(); }) == 1);
    const auto wakeups = rank.engine().counters().engine_wakeups;
    std::this_thread::sleep_for(milliseconds(20));
    CHECK(rank.engine().counters().engine_wakeups <= wakeups + 1);
    rank.engine().stop(Deadline::in(kLimit));
}

TEST_CASE("an exception on the engine's thread ends the world, not the process") {
    const auto* const method = GENERATE("poll", "about_to_sleep", "awake", "is_oversubscribed");
    const auto thrown = GENERATE(Thrown::of_ours, Thrown::of_the_library);
    CAPTURE(method, static_cast<int>(thrown));
    ThrowingEngine rank(method, Where::engine, thrown, {.polls_until_done = 1});
    CHECK_FALSE(rank.submit_and_sleep("warm"));

    (void)rank.await_throw([&] { return rank.submit_and_sleep("x"); });
    const auto later = rank.submit_and_sleep("y");

    REQUIRE(later);
    CHECK(later->message == "the cable is cut; 'y' (allreduce) was not finished");
    rank.engine().stop(Deadline::in(kLimit));
}

TEST_CASE("a backend that throws on a caller's thread leaves the lock to the others") {
    ThrowingEngine rank("", Where::caller, Thrown::of_ours,
                        {.open_error = Error{Errc::unavailable, "too many open files"}});

    const auto first = rank.run("x");

    REQUIRE(first);
    CHECK(first->message == "too many open files; 'x' (allreduce) was not finished");
    const auto later = elsewhere([&] { return rank.run("y"); });
    REQUIRE(later);
    CHECK(later->message == "too many open files; 'y' (allreduce) was not finished");
    CHECK(elsewhere([&] { return rank.submit_and_sleep("z"); }));
}

TEST_CASE("an exception gives the progress lock back") {
    ProgressLock lock;
    CHECK_THROWS_AS(
        [&] {
            const auto hold = lock.take();
            CHECK(lock.is_mine());
            throw std::runtime_error("in the loop");
        }(),
        std::runtime_error);

    CHECK_FALSE(lock.is_mine());
    CHECK(elsewhere([&] { return static_cast<bool>(lock.try_take()); }));
}
