// SPDX-License-Identifier: Apache-2.0
//
// MPI_Allreduce in hvd-bench's two modes: `mpi_allreduce MIN MAX FACTOR MODE CSV`. For comparison
// only.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double microseconds(Clock::duration span) {
    return std::chrono::duration<double, std::micro>(span).count();
}

/// As in hvd-bench.
int iterations_for(std::size_t bytes) {
    constexpr std::size_t kBudget = std::size_t{256} << 20;
    return static_cast<int>(std::clamp<std::size_t>(kBudget / (bytes + 16384), 5, 5000));
}

void reduce(const void* in, std::vector<float>& out) {
    MPI_Allreduce(in, out.data(), static_cast<int>(out.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

double time_loop(const std::vector<float>& in, std::vector<float>& out, int ranks) {
    const int iterations = iterations_for(in.size() * sizeof(float));
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = Clock::now();
    for (int call = 0; call < iterations; ++call) {
        reduce(in.data(), out);
    }
    double time = microseconds(Clock::now() - start) / iterations;
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return time / ranks;
}

double time_touch(std::vector<float>& data) {
    const int iterations = iterations_for(data.size() * sizeof(float));
    std::vector<double> starts;
    std::vector<double> ends;
    for (int call = 0; call < iterations; ++call) {
        std::ranges::fill(data, static_cast<float>(call & 3));
        MPI_Barrier(MPI_COMM_WORLD);
        const auto start = Clock::now();
        reduce(MPI_IN_PLACE, data);
        const auto end = Clock::now();
        starts.push_back(microseconds(start.time_since_epoch()));
        ends.push_back(microseconds(end.time_since_epoch()));
    }
    for (auto* times : {&starts, &ends}) {
        MPI_Allreduce(MPI_IN_PLACE, times->data(), iterations, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    std::vector<double> spans;
    for (std::size_t call = 0; call < starts.size(); ++call) {
        spans.push_back(ends[call] - starts[call]);
    }
    std::ranges::nth_element(spans, spans.begin() + static_cast<std::ptrdiff_t>(spans.size() / 2));
    return spans[spans.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 6) {
        return 2;
    }
    MPI_Init(&argc, &argv);
    int rank = 0;
    int ranks = 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const auto min = std::strtoull(argv[1], nullptr, 10);
    const auto max = std::strtoull(argv[2], nullptr, 10);
    const auto factor = std::strtoull(argv[3], nullptr, 10);
    const std::string mode = argv[4];
    std::FILE* csv = rank == 0 ? std::fopen(argv[5], "w") : nullptr;
    if (csv != nullptr) {
        std::fputs("bytes,mode,time_us\n", csv);
    }
    for (auto bytes = min; bytes <= max && factor > 1; bytes *= factor) {
        std::vector<float> in(bytes / sizeof(float), 1.0F);
        std::vector<float> out(in.size());
        for (int warm = 0; warm < 3; ++warm) {
            reduce(in.data(), out);
        }
        const double time = mode == "loop" ? time_loop(in, out, ranks) : time_touch(in);
        if (csv != nullptr) {
            (void)std::fprintf(csv, "%llu,%s,%.3f\n", static_cast<unsigned long long>(bytes),
                               mode.c_str(), time);
        }
    }
    if (csv != nullptr) {
        (void)std::fclose(csv);
    }
    MPI_Finalize();
    return 0;
}
