// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/run.hpp"

#include "apps/hvd-bench/measure.hpp"
#include "apps/hvd-bench/table.hpp"

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace hvd::bench {
namespace {

/// Where the lines go: on rank 0 to standard output and the files, elsewhere nowhere.
class Output {
public:
    Output(const Options& options, const World& world)
        : options_(options), ranks_(world.size()), speaks_(world.rank() == 0) {
        if (!speaks_) {
            return;
        }
        open(csv_, options.csv);
        open(json_, options.json);
        csv_ << kCsvHeader;
        std::cout << table_header(options, ranks_) << std::flush;
    }

    void write(const Line& line) {
        if (speaks_) {
            std::cout << table_line(options_, line, ranks_) << std::flush;
            csv_ << csv_line(options_, line, ranks_) << std::flush;
            lines_.push_back(line);
        }
    }

    void end() {
        if (speaks_) {
            json_ << json_text(options_, lines_, ranks_) << std::flush;
        }
    }

private:
    static void open(std::ofstream& file, const std::filesystem::path& path) {
        if (!path.empty()) {
            file.open(path);
            if (!file) {
                throw Failure(HVD_INVALID_ARGUMENT, "cannot write " + path.string());
            }
        }
    }

    const Options& options_;
    int ranks_;
    bool speaks_;
    std::ofstream csv_;
    std::ofstream json_;
    std::vector<Line> lines_;
};

}  // namespace

int run(const Options& options) {
    auto world = hvd::init();
    if (options.root >= world.size()) {
        throw Failure(HVD_INVALID_ARGUMENT, "--root '" + std::to_string(options.root) +
                                                "': expected a rank of the " +
                                                std::to_string(world.size()) + " there are");
    }
    Output output(options, world);
    std::size_t errors = 0;
    for (const auto mode : {Mode::loop, Mode::touch}) {
        if (options.mode && *options.mode != mode) {
            continue;
        }
        for (const auto bytes : sizes_of(options, world.size())) {
            const auto line = measure(world, options, mode, bytes);
            output.write(line);
            errors += line.errors;
        }
    }
    output.end();
    if (errors != 0 && world.rank() == 0) {
        std::cerr << "hvd-bench: " << errors << " wrong elements\n";
    }
    return errors == 0 ? 0 : 1;
}

}  // namespace hvd::bench
