// SPDX-License-Identifier: Apache-2.0
#include "collectives/reactor.hpp"

#include "collectives/base/error.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <memory>

#include <sys/epoll.h>
#include <sys/eventfd.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;

class Event {
public:
    [[nodiscard]] int get() const { return fd_.get(); }
    void set() const { REQUIRE(::eventfd_write(fd_.get(), 1) == 0); }
    void clear() const {
        eventfd_t count = 0;
        REQUIRE(::eventfd_read(fd_.get(), &count) == 0);
    }

private:
    UniqueFd fd_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
};

TEST_CASE("waiting ends at the deadline when nothing is ready") {
    const Reactor reactor;

    CHECK_FALSE(reactor.wait(Deadline::in(0ms)));
    CHECK_FALSE(reactor.wait(Deadline::in(2ms)));
}

TEST_CASE("what is ready stays ready until its handler deals with it") {
    Reactor reactor;
    const Event event;
    int calls = 0;
    reactor.watch(event.get(), EPOLLIN, [&](std::uint32_t events) {
        CHECK(events == EPOLLIN);
        ++calls;
    });
    event.set();

    CHECK(reactor.wait(Deadline::in(1s)));
    reactor.dispatch();
    CHECK(reactor.wait(Deadline::in(0ms)));
    reactor.dispatch();
    event.clear();
    CHECK_FALSE(reactor.wait(Deadline::in(0ms)));
    reactor.dispatch();

    CHECK(calls == 2);
}

TEST_CASE("a forgotten descriptor is quiet") {
    Reactor reactor;
    const Event event;
    reactor.watch(event.get(), EPOLLIN, [](std::uint32_t) { FAIL("it was forgotten"); });
    event.set();

    reactor.forget(event.get());

    CHECK_FALSE(reactor.wait(Deadline::in(0ms)));
    reactor.dispatch();
}

TEST_CASE("a handler may forget itself and others") {
    Reactor reactor;
    const Event one;
    const Event other;
    int calls = 0;
    const auto forget_both = [&](std::uint32_t) {
        ++calls;
        reactor.forget(one.get());
        reactor.forget(other.get());
    };
    reactor.watch(one.get(), EPOLLIN, forget_both);
    reactor.watch(other.get(), EPOLLIN, forget_both);
    one.set();
    other.set();

    reactor.dispatch();

    CHECK(calls == 1);
}

TEST_CASE("an event of a closed descriptor does not reach the next of its number") {
    Reactor reactor;
    const Event trigger;
    auto old = std::make_unique<Event>();
    const int number = old->get();
    std::unique_ptr<Event> fresh;
    int calls = 0;
    const auto replace = [&](std::uint32_t) {
        if (fresh) {
            return;
        }
        reactor.forget(number);
        old.reset();
        fresh = std::make_unique<Event>();
        REQUIRE(fresh->get() == number);
        reactor.watch(number, EPOLLIN, [&](std::uint32_t) { ++calls; });
    };
    reactor.watch(trigger.get(), EPOLLIN, replace);
    reactor.watch(number, EPOLLIN, replace);
    trigger.set();
    old->set();

    reactor.dispatch();

    CHECK(calls == 0);
}

TEST_CASE("a bad descriptor is refused") {
    Reactor reactor;

    CHECK_THROWS_AS(reactor.watch(-1, EPOLLIN, [](std::uint32_t) {}), Exception);
}

}  // namespace
}  // namespace hvd::coll
