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

    /// Throws Failure where something could not be written.
    void end() {
        if (!speaks_) {
            return;
        }
        json_ << json_text(options_, lines_, ranks_);
        close(csv_, options_.csv);
        close(json_, options_.json);
        if (!std::cout.flush()) {
            throw Failure(HVD_INVALID_ARGUMENT, "cannot write standard output");
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

    static void close(std::ofstream& file, const std::filesystem::path& path) {
        if (path.empty()) {
            return;
        }
        file.close();
        if (!file) {
            throw Failure(HVD_INVALID_ARGUMENT, "cannot write all of " + path.string());
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
    const auto sizes = sizes_of(options, world.size());
    if (sizes.empty()) {
        throw Failure(HVD_INVALID_ARGUMENT,
                      "from --minbytes '" + std::to_string(options.min_bytes) +
                          "' to --maxbytes '" + std::to_string(options.max_bytes) +
                          "' no size has an element for each share: expected a larger --maxbytes");
    }
    Output output(options, world);
    std::size_t errors = 0;
    for (const auto mode : {Mode::loop, Mode::touch}) {
        if (options.mode && *options.mode != mode) {
            continue;
        }
        for (const auto bytes : sizes) {
            const auto line = measure(world, options, mode, bytes);
            output.write(line);
            errors += line.errors;
        }
    }
    if (errors != 0 && world.rank() == 0) {
        std::cerr << "hvd-bench: " << errors << " wrong elements\n";
    }
    output.end();
    return errors == 0 ? 0 : 1;
}

}  // namespace hvd::bench
