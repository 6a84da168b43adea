// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/ticket_table.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <thread>
#include <vector>

using hvd::Deadline;
using hvd::Errc;
using hvd::Error;
using hvd::ok;
using hvd::Status;
using hvd::rt::Operation;
using hvd::rt::Request;
using hvd::rt::TicketTable;

namespace {

Request named(std::string name, std::uint64_t group = 0) {
    Request request;
    request.name = std::move(name);
    request.group = group;
    return request;
}

Operation& one(TicketTable& table, const std::string& name) {
    std::vector<Request> requests{named(name)};
    auto* operation = table.create(requests)->front();
    REQUIRE(TicketTable::claim({&operation, 1}));
    return *operation;
}

}  // namespace

TEST_CASE("a ticket is known until it is released, and never again") {
    TicketTable table;
    auto& operation = one(table, "a");
    const auto ticket = ticket_of(operation);

    REQUIRE(table.find(ticket));
    table.complete(operation);
    REQUIRE(table.release(operation));

    CHECK_FALSE(table.find(ticket));
    CHECK(ticket_of(one(table, "b")) != ticket);
    CHECK_FALSE(table.find(0));
    CHECK_FALSE(table.find(~std::uint64_t{0}));
}

TEST_CASE("released before its end, a ticket goes when it ends") {
    TicketTable table;
    auto& operation = one(table, "a");
    const auto ticket = ticket_of(operation);

    REQUIRE(table.release(operation));
    CHECK_FALSE(table.release(operation));
    CHECK(table.find(ticket));
    table.complete(operation);

    CHECK_FALSE(table.find(ticket));
}

TEST_CASE("a name is pending until its operation ends; a claim takes all or none") {
    TicketTable table;
    auto& first = one(table, "a");
    std::vector<Request> requests{named("b"), named("a")};
    const auto operations = *table.create(requests);

    CHECK_FALSE(TicketTable::claim(operations));
    CHECK_FALSE(operations.front()->name->is_pending);
    table.complete(first);
    CHECK(TicketTable::claim(operations));
}

TEST_CASE("requests of one group complete together, those of group 0 are alone") {
    TicketTable table;
    std::vector<Request> requests{named("a", 1), named("b"), named("c", 1), named("d", 2)};

    const auto operations = *table.create(requests);

    CHECK(operations[0]->leader == operations[0]);
    CHECK(operations[0]->next == operations[2]);
    CHECK(operations[2]->leader == operations[0]);
    CHECK(operations[0]->group == operations[2]->group);
    CHECK(operations[0]->group->text == "a\nc");
    CHECK(operations[1]->group == operations[1]->name);
    CHECK(operations[3]->leader == operations[3]);
}

TEST_CASE("a callback is called once, whether it comes before or after the end") {
    TicketTable table;
    auto& before = one(table, "a");
    auto& after = one(table, "b");
    int calls = 0;
    std::string message;
    const auto count = [&](const Error* error) {
        ++calls;
        message = error == nullptr ? "" : error->message;
        return ok();
    };

    REQUIRE(TicketTable::on_complete(before, count));
    CHECK_FALSE(TicketTable::on_complete(before, count));
    before.failed = true;
    before.error = {Errc::aborted, "why"};
    table.complete(before);
    CHECK(calls == 1);
    CHECK(message == "why");
    table.complete(after);
    REQUIRE(TicketTable::on_complete(after, count));

    CHECK(calls == 2);
    CHECK(message.empty());
}

TEST_CASE("a callback may release its own ticket") {
    TicketTable table;
    auto& operation = one(table, "a");
    const auto ticket = ticket_of(operation);

    REQUIRE(TicketTable::on_complete(operation, [&](const Error*) {
        CHECK(table.release(operation));
        return ok();
    }));
    table.complete(operation);

    CHECK_FALSE(table.find(ticket));
}

TEST_CASE("an operation is done when its callback has returned, and fails with it") {
    TicketTable table;
    auto& operation = one(table, "a");
    bool was_done = true;
    bool had_ended = false;

    REQUIRE(TicketTable::on_complete(operation, [&](const Error*) -> Status {
        was_done = TicketTable::is_done(operation);
        had_ended = TicketTable::has_ended(operation);
        return Error{Errc::internal, "thrown"};
    }));
    CHECK_FALSE(TicketTable::has_ended(operation));
    table.complete(operation);

    CHECK_FALSE(was_done);
    CHECK(had_ended);
    CHECK(TicketTable::is_done(operation));
    REQUIRE_FALSE(TicketTable::outcome(operation));
    CHECK(TicketTable::outcome(operation).error().message == "thrown");

    REQUIRE(table.release(operation));
    auto& next = one(table, "b");
    table.complete(next);
    CHECK(TicketTable::outcome(next));
}

TEST_CASE("the failure of an operation counts more than that of its callback") {
    TicketTable table;
    auto& operation = one(table, "a");
    operation.failed = true;
    operation.error = {Errc::aborted, "why"};

    REQUIRE(TicketTable::on_complete(operation, [](const Error*) -> Status {
        return Error{Errc::internal, "thrown"};
    }));
    table.complete(operation);

    CHECK(TicketTable::outcome(operation).error().message == "why");
}

TEST_CASE("waiting ends with the operation or at the deadline") {
    TicketTable table;
    auto& operation = one(table, "a");

    CHECK_FALSE(TicketTable::wait(operation, Deadline::in(std::chrono::milliseconds(5))));
    const std::jthread other([&] { table.complete(operation); });

    CHECK(TicketTable::wait(operation, Deadline::in(std::chrono::seconds(5))));
}

TEST_CASE("names that nobody uses are forgotten, cached ones are kept") {
    TicketTable table;
    auto& operation = one(table, "a");
    auto& name = *operation.name;
    name.is_cached = true;
    name.cache_id = 7;
    table.complete(operation);
    REQUIRE(table.release(operation));

    auto& again = one(table, "a");
    CHECK(again.name == &name);
    CHECK(again.name->cache_id == 7);
    table.uncache(name);
    table.complete(again);
    REQUIRE(table.release(again));

    CHECK(one(table, "a").name->cache_id == hvd::rt::kNoId);
}

TEST_CASE("names are the right ones in any order, whatever came after them before") {
    const bool is_reversed = GENERATE(false, true);
    CAPTURE(is_reversed);
    TicketTable table;
    for (const std::string order : {"abc", "abc", "acb", "aabbcc", "bxa", "abcdefgh"}) {
        CAPTURE(order);
        std::vector<Request> requests;
        for (const char name : order) {
            requests.push_back(named(std::string(1, name)));
        }
        auto operations = *table.create(requests);

        for (std::size_t index = 0; index < order.size(); ++index) {
            CHECK(operations[index]->name->text == order.substr(index, 1));
            CHECK(operations[index]->name->users >= 1);
        }
        if (is_reversed) {
            std::ranges::reverse(operations);
        }
        REQUIRE(table.discard(operations));  // all are forgotten
    }
}

TEST_CASE("a name that is used again after it was forgotten is a new one") {
    TicketTable table;
    for (const std::string text : {"a", "b", "c", "a"}) {
        auto& operation = one(table, text);
        auto& other = one(table, text + " of another set");
        CHECK(operation.name != other.name);
        CHECK(operation.name->text == text);
        CHECK(operation.name->cache_id == hvd::rt::kNoId);
        operation.name->cache_id = 3;
        table.complete(other);
        table.complete(operation);
        REQUIRE(table.release(other));
        REQUIRE(table.release(operation));
    }
}

TEST_CASE("of many tickets all are released that can be, and the first error is told") {
    TicketTable table;
    std::vector<Request> requests;
    for (int index = 0; index < 200; ++index) {
        requests.push_back(named(std::to_string(index)));
    }
    const auto operations = *table.create(requests);
    REQUIRE(TicketTable::claim(operations));
    std::vector<hvd::rt::Ticket> tickets;
    for (auto* operation : operations) {
        tickets.push_back(ticket_of(*operation));
        if (tickets.size() != 150) {
            table.complete(*operation);
        }
    }
    auto with_errors = tickets;
    with_errors.insert(with_errors.begin() + 70, 12345);  // no ticket
    with_errors.push_back(tickets.front());               // released just now

    const auto released = table.release(with_errors);

    REQUIRE_FALSE(released);
    CHECK(released.error().message.find("12345") != std::string::npos);
    for (std::size_t index = 0; index < tickets.size(); ++index) {
        CHECK(table.find(tickets[index]).has_value() == (index == 149));
    }
    table.complete(*operations[149]);
    CHECK_FALSE(table.find(tickets[149]));
    CHECK(table.release(std::span<const hvd::rt::Ticket>{}));
}

TEST_CASE("a name belongs to its process set") {
    TicketTable table;
    std::vector<Request> requests{named("a"), named("a"), named("b", 1), named("c", 1)};
    requests[1].process_set = 3;
    requests[2].process_set = 3;
    requests[3].process_set = 3;

    const auto operations = *table.create(requests);

    REQUIRE(TicketTable::claim(operations));
    CHECK(operations[0]->name != operations[1]->name);
    CHECK(operations[1]->process_set == 3);
    CHECK(operations[2]->group->process_set == 3);
    std::vector<Request> again{named("a")};
    again.front().process_set = 3;
    CHECK_FALSE(TicketTable::claim(*table.create(again)));
}

TEST_CASE("a pending operation keeps its process set, and gives it back at its end") {
    TicketTable table;
    hvd::rt::ProcessSetEntry set;
    set.set.id = 5;
    auto& operation = one(table, "a");
    operation.set = &set;
    ++set.users;

    table.complete(operation);

    CHECK(set.users == 0);
    CHECK(operation.set == nullptr);
}

TEST_CASE("a neutral operation has memory of its own, no ticket, and goes when it ends") {
    TicketTable table;
    hvd::rt::ProcessSetEntry set;
    set.set.id = 5;
    hvd::rt::Signature signature;
    signature.shape = {3, 2};
    auto& operation = table.create_neutral(signature, set);
    const auto ticket = ticket_of(operation);

    CHECK(set.users == 1);
    CHECK(operation.process_set == 5);
    CHECK(operation.leader == &operation);
    CHECK(operation.in != nullptr);
    CHECK(operation.in == operation.out);
    const auto before = table.completed();
    table.complete(operation);

    CHECK(set.users == 0);
    CHECK(table.completed() == before);  // no caller's
    CHECK_FALSE(table.find(ticket));
    auto& next = one(table, "next");
    CHECK(&next == &operation);
    CHECK_FALSE(next.is_neutral);
    CHECK(next.owned == nullptr);
}

TEST_CASE("what was claimed again after a failure has not failed") {
    TicketTable table;
    auto& operation = one(table, "a");
    operation.failed = true;
    table.complete(operation);

    Operation* const again = &operation;
    REQUIRE(TicketTable::claim({&again, 1}));

    CHECK_FALSE(operation.failed);
    CHECK_FALSE(TicketTable::is_done(operation));
}

TEST_CASE("who waits for any of several wakes with the next batch of completions") {
    TicketTable table;
    auto& operation = one(table, "a");
    const auto seen = table.batches();

    table.wake_any();
    CHECK(table.batches() == seen);  // nothing had ended
    const std::jthread other([&] {
        table.complete(operation);
        table.wake_any();
    });
    table.wait_any(seen, Deadline::in(std::chrono::seconds(5)));

    CHECK(table.batches() != seen);
}
