// SPDX-License-Identifier: Apache-2.0
//
// sim_engine: runs schedules of simulated worlds. See README.md.
#include "tests/simulation/engine/plan.hpp"
#include "tests/simulation/engine/world.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

// NOLINTBEGIN(cppcoreguidelines-no-malloc): these are operator new and delete
// Outputs that the library allocates are aligned to 64 bytes, and nothing else is.
void* operator new(std::size_t bytes, std::align_val_t alignment) {
    if (alignment == std::align_val_t{64} && hvd::sim::allocation_fails()) {
        throw std::bad_alloc();
    }
    const auto align = static_cast<std::size_t>(alignment);
    void* const memory = std::aligned_alloc(align, (bytes + align - 1) / align * align);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
    std::free(memory);
}
// NOLINTEND(cppcoreguidelines-no-malloc)

#if defined(HVD_SANITIZE_ADDRESS)
// Ranks that have died free nothing.
extern "C" const char* __asan_default_options() {
    return "detect_leaks=0";
}
#endif

namespace {

struct Options {
    std::uint64_t first = 1;
    std::uint64_t count = 100;
    bool expects_failure = false;  // of any of them
    std::uint64_t most_failures = 1;
};

bool parse(std::string_view text, std::uint64_t& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc() && end == text.data() + text.size();
}

int usage() {
    std::fprintf(stderr,
                 "usage: sim_engine [--first SEED] [--count N] [--trace] [--expect-failure]\n"
                 "                  [--most-failures N]\n");
    return 2;
}

std::string run(std::uint64_t seed, std::uint64_t& steps) {
    const auto traits = hvd::sim::draw_traits(seed);
    auto plan = hvd::sim::draw_plan(seed, traits);
    if (hvd::sim::Scheduler::is_tracing) {
        std::fprintf(stderr, "seed %llu: %s\n%s", static_cast<unsigned long long>(seed),
                     describe(traits).c_str(), describe(plan).c_str());
    }
    hvd::sim::World world(seed, traits, std::move(plan));
    auto failure = world.run();
    steps += world.scheduler().steps();
    if (!failure.empty()) {
        failure =
            "FAILED: seed " + std::to_string(seed) + " (" + describe(traits) + ")\n" + failure;
    }
    return failure;
}

int run_all(const Options& options, const char* program) {
    std::uint64_t failures = 0;
    std::uint64_t steps = 0;
    std::uint64_t seed = options.first;
    for (; seed < options.first + options.count && failures < options.most_failures; ++seed) {
        const auto failure = run(seed, steps);
        if (!failure.empty()) {
            ++failures;
            std::printf("%s\nreplay: %s --first %llu --count 1 --trace\n", failure.c_str(), program,
                        static_cast<unsigned long long>(seed));
            (void)std::fflush(stdout);
        }
    }
    std::printf("%llu schedules from seed %llu on, %llu steps, %llu failed\n",
                static_cast<unsigned long long>(seed - options.first),
                static_cast<unsigned long long>(options.first),
                static_cast<unsigned long long>(steps), static_cast<unsigned long long>(failures));
    return (failures != 0) == options.expects_failure ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    for (int index = 1; index < argc; ++index) {
        const std::string_view argument = argv[index];
        if (argument == "--trace") {
            hvd::sim::Scheduler::is_tracing = true;
        } else if (argument == "--expect-failure") {
            options.expects_failure = true;
        } else {
            std::uint64_t* const number = argument == "--first"           ? &options.first
                                          : argument == "--count"         ? &options.count
                                          : argument == "--most-failures" ? &options.most_failures
                                                                          : nullptr;
            if (number == nullptr || ++index == argc || !parse(argv[index], *number)) {
                return usage();
            }
        }
    }
    return run_all(options, argv[0]);
}
