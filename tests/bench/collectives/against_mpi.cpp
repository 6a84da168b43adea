// SPDX-License-Identifier: Apache-2.0
//
// libhorovod and MPI by turns, in the same processes and on the same memory: `against_mpi ROUNDS
// MAX_BYTES [CASE...]` under mpirun. For comparison only.
#include "tests/bench/collectives/comparison.hpp"

#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "hvd/hvd.hpp"

namespace {

using hvd::ReduceOp;
using hvd::Request;
using hvd::bench::Comparison;

constexpr hvd::Reduction kSum{.op = ReduceOp::sum};

double largest(double value) {
    MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return value;
}

/// One operation over and over, with its name resolved once, as MPI's call has it too.
class Repeated {
public:
    Repeated(hvd::World& world, const Request& request) : plan_(world.plan(request)) {}
    void operator()() { plan_.run(); }

private:
    hvd::Plan plan_;
};

void compare_sizes(hvd::World& world, const Comparison& comparison, std::size_t largest_size) {
    const auto ranks = static_cast<std::size_t>(world.size());
    for (std::size_t bytes = 4; bytes <= largest_size; bytes *= 4) {
        const auto size = std::to_string(bytes);
        const auto count = static_cast<int>(bytes / sizeof(float));
        std::vector<float> in(bytes / sizeof(float), 1.0F);
        std::vector<float> out(in.size(), 0.0F);
        Repeated allreduce(world, Request::allreduce("allreduce." + size, std::span(out), kSum));
        comparison.run("allreduce", bytes, std::ref(allreduce), [&] {
            MPI_Allreduce(MPI_IN_PLACE, out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        });
        if (in.size() % ranks != 0) {
            continue;
        }
        const int share = count / static_cast<int>(ranks);
        std::vector<float> received(in.size());
        Repeated alltoall(world, Request::alltoall("alltoall." + size, std::span(in)));
        comparison.run("alltoall", bytes, std::ref(alltoall), [&] {
            MPI_Alltoall(in.data(), share, MPI_FLOAT, received.data(), share, MPI_FLOAT,
                         MPI_COMM_WORLD);
        });
        std::vector<float> slice(in.size() / ranks);
        Repeated reducescatter(
            world, Request::reducescatter("reducescatter." + size, std::span(in), kSum));
        comparison.run("reducescatter", bytes, std::ref(reducescatter), [&] {
            MPI_Reduce_scatter_block(in.data(), slice.data(), share, MPI_FLOAT, MPI_SUM,
                                     MPI_COMM_WORLD);
        });
    }
}

/// Many small tensors in one call, by name and as a plan; MPI takes them one by one.
void compare_batch(hvd::World& world, const Comparison& comparison, int tensors, int bytes) {
    const auto count = static_cast<std::size_t>(bytes) / sizeof(float);
    std::vector<std::vector<float>> data(static_cast<std::size_t>(tensors),
                                         std::vector<float>(count, 0.0F));
    std::vector<Request> requests;
    for (auto& tensor : data) {
        requests.push_back(Request::allreduce(
            "batch." + std::to_string(bytes) + "." + std::to_string(requests.size()),
            std::span(tensor), kSum));
    }
    const auto one_by_one = [&] {
        for (auto& tensor : data) {
            MPI_Allreduce(MPI_IN_PLACE, tensor.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        }
    };
    const auto size = static_cast<std::size_t>(bytes);
    Request::with_raw(requests, [&](std::span<const hvd_request> raw) {
        std::vector<hvd_ticket> tickets(raw.size());
        const auto ours = [&] {
            if (hvd_run(world.context(), raw.data(), raw.size(), tickets.data(), -1) != HVD_OK) {
                throw hvd::Failure(HVD_INTERNAL, hvd_last_error());
            }
            (void)hvd_release_all(world.context(), tickets.data(), tickets.size());
        };
        comparison.run("batch_of_" + std::to_string(tensors), size, ours, one_by_one);
    });
    auto plan = world.plan(requests);
    comparison.run(
        "plan_of_" + std::to_string(tensors), size, [&] { plan.run(); }, one_by_one);
}

}  // namespace

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    const std::span<char* const> arguments(argv, static_cast<std::size_t>(argc));
    if (arguments.size() < 3) {
        MPI_Finalize();
        return 2;
    }
    try {
        hvd::World world;
        const Comparison comparison(std::atoi(arguments[1]), world.rank() == 0,
                                    arguments.subspan(3), &largest);
        compare_sizes(world, comparison, std::strtoull(arguments[2], nullptr, 10));
        compare_batch(world, comparison, 1'000, 256);
        compare_batch(world, comparison, 10'000, 1'024);
    } catch (const hvd::Failure& failure) {
        (void)std::fprintf(stderr, "against_mpi: %s\n", failure.what());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
