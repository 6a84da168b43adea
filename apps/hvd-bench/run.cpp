// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/run.hpp"

#include "apps/hvd-bench/measure.hpp"
#include "apps/hvd-bench/table.hpp"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <vector>

namespace hvd::bench {
namespace {

/// Where the lines go: on rank 0 to standard output and the file, elsewhere nowhere.
class Output {
public:
    Output(const Options& options, const World& world)
        : options_(options), ranks_(world.size()), speaks_(world.rank() == 0) {
        if (speaks_ && !options.csv.empty()) {
            csv_.open(options.csv);
            if (!csv_) {
                throw Failure(HVD_INVALID_ARGUMENT, "cannot write " + options.csv.string());
            }
            csv_ << kCsvHeader;
        }
        if (speaks_) {
            std::cout << table_header(options, ranks_) << std::flush;
        }
    }

    void write(const Line& line) {
        if (speaks_) {
            std::cout << table_line(options_, line, ranks_) << std::flush;
            csv_ << csv_line(options_, line, ranks_) << std::flush;
        }
    }

private:
    const Options& options_;
    int ranks_;
    bool speaks_;
    std::ofstream csv_;
};

std::vector<std::size_t> sizes_of(const Options& options) {
    if (options.op == coll::Op::barrier) {
        return {0};
    }
    const auto least = std::max(options.min_bytes, coll::size_of(options.type));
    std::vector<std::size_t> sizes;
    for (auto bytes = least; bytes <= options.max_bytes; bytes *= options.factor) {
        sizes.push_back(bytes - bytes % coll::size_of(options.type));  // what is really sent
    }
    return sizes;
}

}  // namespace

int run(const Options& options) {
    auto world = hvd::init();
    Output output(options, world);
    std::size_t errors = 0;
    for (const auto mode : {Mode::loop, Mode::touch}) {
        if (options.mode && *options.mode != mode) {
            continue;
        }
        for (const auto bytes : sizes_of(options)) {
            const auto line = measure(world, options, mode, bytes);
            output.write(line);
            errors += line.errors;
        }
    }
    if (errors != 0 && world.rank() == 0) {
        std::cerr << "hvd-bench: " << errors << " wrong elements\n";
    }
    return errors == 0 ? 0 : 1;
}

}  // namespace hvd::bench
