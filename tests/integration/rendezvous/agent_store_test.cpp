// SPDX-License-Identifier: Apache-2.0
//
// The rank's side of the agent's socket against an agent that the test plays.
#include "collectives/rendezvous/agent_store.hpp"

#include "collectives/base/unix_socket.hpp"
#include "collectives/rendezvous/memory_store.hpp"
#include "tests/support/proc_group.hpp"

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/socket.h>

namespace hvd::coll {
namespace {

using namespace std::chrono_literals;
using namespace agent_message;  // NOLINT(google-build-using-namespace)

constexpr auto kLimit = 10s;

std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
}

/// One connection of a rank, served by a script on another thread.
class PlayedAgent {
public:
    class Connection {
    public:
        explicit Connection(UniqueFd socket) : socket_(std::move(socket)) {}

        /// The rank's next message, or nothing when it has left.
        std::optional<RankMessage> next() {
            std::array<std::byte, 512> bytes{};
            while (true) {
                auto message = reader_.next();
                if (!message || *message) {
                    return message ? std::move(*message) : std::nullopt;
                }
                if (!await_socket(socket_.get(), POLLIN, Deadline::in(kLimit))) {
                    return std::nullopt;
                }
                const auto size = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
                if (size <= 0) {
                    return std::nullopt;
                }
                reader_.feed(std::span(bytes).first(static_cast<std::size_t>(size)));
            }
        }

        template <class Message>
        Message expect() {
            const auto message = next();
            return message && std::holds_alternative<Message>(*message)
                       ? std::get<Message>(*message)
                       : Message{};
        }

        void say(const AgentMessage& message) const {
            (void)send_all(socket_.get(), encode(message), Deadline::in(kLimit));
        }

    private:
        UniqueFd socket_;
        FrameReader<RankMessage> reader_;
    };

    explicit PlayedAgent(std::function<void(Connection&)> script) {
        auto listening = listen_abstract(name_, SOCK_STREAM);
        listener_ = std::move(listening.value().socket);
        thread_ = std::jthread([this, script = std::move(script)] {
            (void)await_socket(listener_.get(), POLLIN, Deadline::in(kLimit));
            Connection connection(
                UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK)));
            script(connection);
        });
    }

    [[nodiscard]] LaunchContract contract() const {
        return {.topology = {.rank = 3, .size = 4},
                .hostname = "here",
                .job_id = "0123456789abcdef0123456789abcdef",
                .agent_socket = name_};
    }

    void join() { thread_.join(); }

private:
    std::string name_ = test::unique_socket_name();
    UniqueFd listener_;
    std::jthread thread_;
};

std::unique_ptr<AgentStore> connect(const PlayedAgent& agent) {
    auto store = AgentStore::connect(agent.contract(), Deadline::in(kLimit));
    REQUIRE(store.has_value());
    return std::move(store).value();
}

TEST_CASE("a rank greets its agent, puts and gets") {
    Hello hello;
    Put put;
    PlayedAgent agent([&](auto& connection) {
        hello = connection.template expect<Hello>();
        connection.say(Welcome{});
        put = connection.template expect<Put>();
        connection.say(Done{.request = put.request});
        const auto get = connection.template expect<Get>();
        connection.say(Value{.request = get.request, .value = bytes_of(get.key)});
    });

    const auto store = connect(agent);
    CHECK(store->put("world/0/shm", bytes_of("secret")).has_value());
    const auto value = store->get("another", Deadline::in(kLimit));

    REQUIRE(value.has_value());
    CHECK(*value == bytes_of("another"));
    agent.join();
    CHECK(hello.rank == 3);
    CHECK(hello.job_id == agent.contract().job_id);
    CHECK(put.key == "world/0/shm");
    CHECK(put.value == bytes_of("secret"));
}

TEST_CASE("a get that is not answered names its key, and a late answer does no harm") {
    std::promise<void> is_late;
    PlayedAgent agent([&](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        const auto first = connection.template expect<Get>();
        is_late.get_future().wait();
        connection.say(Value{.request = first.request, .value = bytes_of("too late")});
        const auto second = connection.template expect<Get>();
        connection.say(Value{.request = second.request, .value = bytes_of("in time")});
    });

    const auto store = connect(agent);
    const auto first = store->get("slow/key", Deadline::in(20ms));
    is_late.set_value();
    const auto second = store->get("quick", Deadline::in(kLimit));

    REQUIRE_FALSE(first.has_value());
    CHECK(first.error().code == Errc::timed_out);
    CHECK_THAT(first.error().message, Catch::Contains("slow/key"));
    REQUIRE(second.has_value());
    CHECK(*second == bytes_of("in time"));
}

TEST_CASE("a get fails at once when a rank is gone, with the agent's words") {
    PlayedAgent agent([](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        (void)connection.template expect<Get>();
        connection.say(Lost{.rank = 2, .why = "rank 2 has died"});
        connection.next();
    });
    auto store = connect(agent);

    const auto first = store->get("of rank 2", Deadline::in(kLimit));
    const auto second = store->get("another", Deadline::in(kLimit));

    REQUIRE_FALSE(first.has_value());
    CHECK(first.error() == Error{Errc::unavailable, "rank 2 has died"});
    REQUIRE_FALSE(second.has_value());
    CHECK(second.error().message == "rank 2 has died");
}

TEST_CASE("word of ranks that are gone comes whenever it is asked for, until the agent's end") {
    std::promise<void> is_ready;
    PlayedAgent agent([&](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        is_ready.get_future().wait();
        connection.say(Done{.request = 77});  // of a put that nobody waits for any more
        connection.say(Lost{.rank = 2, .why = "rank 2 has died"});
        connection.say(Lost{.rank = 1, .why = "rank 1 too"});
    });
    const auto store = connect(agent);
    const auto before = store->next_failure();
    is_ready.set_value();
    agent.join();

    const auto first = store->next_failure();
    const auto second = store->next_failure();
    const auto third = store->next_failure();
    const auto remembered = store->first_failure(Deadline::in(kLimit));

    REQUIRE(before.has_value());
    CHECK_FALSE(before->has_value());
    REQUIRE(first.has_value());
    CHECK(*first == PeerFailure{.rank = 2, .why = "rank 2 has died"});
    REQUIRE(second.has_value());
    CHECK(*second == PeerFailure{.rank = 1, .why = "rank 1 too"});
    CHECK_FALSE(third.has_value());
    CHECK(remembered == first.value());
}

TEST_CASE("the first loss is waited for, and no longer than allowed") {
    std::promise<void> is_asked;
    PlayedAgent agent([&](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        is_asked.get_future().wait();
        connection.say(Lost{.rank = 2, .why = "rank 2 has died"});
        connection.next();
    });
    auto store = connect(agent);

    const auto none = store->first_failure(Deadline::in(20ms));
    is_asked.set_value();
    const auto loss = store->first_failure(Deadline::in(kLimit));

    CHECK_FALSE(none);
    CHECK(loss == PeerFailure{.rank = 2, .why = "rank 2 has died"});
}

TEST_CASE("what the agent refuses is passed on in its words") {
    PlayedAgent agent([](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        const auto put = connection.template expect<Put>();
        connection.say(Failed{.request = put.request, .why = "the key has another value"});
    });

    const auto status = connect(agent)->put("twice", bytes_of("x"));

    REQUIRE_FALSE(status.has_value());
    CHECK(status.error().code == Errc::invalid_argument);
    CHECK_THAT(status.error().message, Catch::Contains("twice"));
    CHECK_THAT(status.error().message, Catch::Contains("the key has another value"));
}

TEST_CASE("an agent of another release is named with both versions") {
    PlayedAgent agent([](auto& connection) {
        connection.next();
        connection.say(Welcome{.version = 77});
    });

    const auto store = AgentStore::connect(agent.contract(), Deadline::in(kLimit));

    REQUIRE_FALSE(store.has_value());
    CHECK(store.error().code == Errc::unsupported);
    CHECK_THAT(store.error().message, Catch::Contains("version 77"));
}

TEST_CASE("an agent that is not there, leaves or is silent is an error in time") {
    LaunchContract nobody;
    nobody.agent_socket = test::unique_socket_name();
    const auto absent = AgentStore::connect(nobody, Deadline::in(kLimit));
    REQUIRE_FALSE(absent.has_value());
    CHECK(absent.error().code == Errc::unavailable);
    CHECK_THAT(absent.error().message, Catch::Contains(nobody.agent_socket));

    PlayedAgent leaving([](auto& connection) { connection.next(); });
    const auto left = AgentStore::connect(leaving.contract(), Deadline::in(kLimit));
    REQUIRE_FALSE(left.has_value());
    CHECK(left.error().code == Errc::unavailable);

    std::promise<void> is_over;
    PlayedAgent silent([&](auto&) { is_over.get_future().wait(); });
    const auto unanswered = AgentStore::connect(silent.contract(), Deadline::in(20ms));
    is_over.set_value();
    REQUIRE_FALSE(unanswered.has_value());
    CHECK(unanswered.error().code == Errc::timed_out);
}

TEST_CASE("reports come from any thread, keep their end, and survive a dead agent") {
    std::vector<Report> reports;
    PlayedAgent agent([&](auto& connection) {
        connection.next();
        connection.say(Welcome{});
        // Two threads speak: whose frame comes first is open, but each is whole.
        std::uint32_t request = 0;
        for (int message = 0; message < 3; ++message) {
            const auto next = connection.next();
            if (next && std::holds_alternative<Report>(*next)) {
                reports.push_back(std::get<Report>(*next));
            } else if (next && std::holds_alternative<Get>(*next)) {
                request = std::get<Get>(*next).request;
            }
        }
        connection.say(Value{.request = request, .value = {}});
    });

    const auto store = connect(agent);
    std::jthread reporter([&] {
        (void)store->report(ReportKind::peer_lost, 2, "rank 2 is gone");
        (void)store->report(ReportKind::exception, -1,
                            std::string(100'000, 'x') + "ValueError: the end");
    });
    // Answered only when both reports have arrived.
    CHECK(store->get("key", Deadline::in(kLimit)).has_value());
    reporter.join();
    agent.join();

    REQUIRE(reports.size() == 2);
    CHECK(reports[0] == Report{.kind = ReportKind::peer_lost, .peer = 2, .text = "rank 2 is gone"});
    CHECK(reports[1].text.size() == 65536);
    CHECK_THAT(reports[1].text, Catch::EndsWith("ValueError: the end"));
    // The agent has closed: no SIGPIPE.
    (void)store->report(ReportKind::finished, -1, "");
    CHECK_FALSE(store->report(ReportKind::finished, -1, "").has_value());
}

TEST_CASE("a store inside the process waits for its keys") {
    MemoryStore store;
    std::jthread writer([&] { (void)store.put("key", bytes_of("value")); });

    const auto value = store.get("key", Deadline::in(kLimit));

    REQUIRE(value.has_value());
    CHECK(*value == bytes_of("value"));
    CHECK(store.put("key", bytes_of("value")).has_value());
    CHECK_FALSE(store.put("key", bytes_of("other")).has_value());
    const auto missing = store.get("missing", Deadline::in(5ms));
    REQUIRE_FALSE(missing.has_value());
    CHECK(missing.error().code == Errc::timed_out);
    CHECK_THAT(missing.error().message, Catch::Contains("missing"));
}

}  // namespace
}  // namespace hvd::coll
