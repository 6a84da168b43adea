// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/simulation/engine/random.hpp"
#include "tests/simulation/engine/world.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvd::sim {

/// One thread of the program that a rank runs: its part of every phase of the plan.
class Program {
public:
    Program(World& world, int rank, std::size_t thread, std::size_t threads);

    void run();

private:
    /// The operations that were submitted and not waited for.
    struct Pending {
        const Item* item = nullptr;
        std::vector<rt::Operation*> operations;
    };

    void run_work(const Phase& phase, std::size_t index);
    void run_change(const Phase& phase, std::size_t index);
    void run_join();
    void wait_outside();
    void finish_join();
    [[nodiscard]] std::vector<std::vector<const Item*>> draw_order(const Phase& phase);
    [[nodiscard]] bool takes_part(const Item& item) const;
    void run_items(const std::vector<const Item*>& items);
    void append_requests(const Item& item, Pending& pending, std::vector<rt::Request>& requests);
    void wait_for_phase(std::size_t index);
    void pause();
    void finish(const Pending& pending);
    void check_failure(const Item& item, const Error& error);
    void check_result(const Item& item, std::size_t tensor, const rt::Operation& operation);
    void give_up(const std::string& why);
    [[nodiscard]] rt::Engine& engine() const { return *self_.engine; }

    World& world_;
    int rank_;
    Rank& self_;
    std::size_t thread_;
    std::size_t threads_;
    Random random_;
    std::size_t phase_ = 0;
    std::vector<Pending> pending_;
};

}  // namespace hvd::sim
