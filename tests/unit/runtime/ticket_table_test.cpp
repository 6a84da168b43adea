// SPDX-License-Identifier: Apache-2.0
#include "runtime/tensor/ticket_table.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <thread>
#include <vector>

using hvd::Deadline;
using hvd::Errc;
using hvd::Error;
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
    const auto ticket = TicketTable::ticket_of(operation);

    REQUIRE(table.find(ticket));
    table.complete(operation);
    REQUIRE(table.release(operation));

    CHECK_FALSE(table.find(ticket));
    CHECK(TicketTable::ticket_of(one(table, "b")) != ticket);
    CHECK_FALSE(table.find(0));
    CHECK_FALSE(table.find(~std::uint64_t{0}));
}

TEST_CASE("released before its end, a ticket goes when it ends") {
    TicketTable table;
    auto& operation = one(table, "a");
    const auto ticket = TicketTable::ticket_of(operation);

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
    CHECK_FALSE(operations.front()->name->pending);
    table.complete(first);
    CHECK(TicketTable::claim(operations));
}

TEST_CASE("requests of one group are one unit, those of group 0 are alone") {
    TicketTable table;
    std::vector<Request> requests{named("a", 1), named("b"), named("c", 1), named("d", 2)};

    const auto operations = *table.create(requests);

    CHECK(operations[0]->head == operations[0]);
    CHECK(operations[0]->next == operations[2]);
    CHECK(operations[2]->head == operations[0]);
    CHECK(operations[0]->unit == operations[2]->unit);
    CHECK(operations[0]->unit->text == "a\nc");
    CHECK(operations[1]->unit == operations[1]->name);
    CHECK(operations[3]->head == operations[3]);
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
    const auto ticket = TicketTable::ticket_of(operation);

    REQUIRE(TicketTable::on_complete(operation,
                                     [&](const Error*) { CHECK(table.release(operation)); }));
    table.complete(operation);

    CHECK_FALSE(table.find(ticket));
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
    name.cached = true;
    name.agreed_id = 7;
    table.complete(operation);
    REQUIRE(table.release(operation));

    auto& again = one(table, "a");
    CHECK(again.name == &name);
    CHECK(again.name->agreed_id == 7);
    table.uncache(name);
    table.complete(again);
    REQUIRE(table.release(again));

    CHECK(one(table, "a").name->agreed_id == hvd::rt::kNoId);
}
