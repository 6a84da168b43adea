// SPDX-License-Identifier: Apache-2.0
//
// The command line of `horovodrun timeline`.
#include "launcher/cli/draft.hpp"

#include <boost/program_options.hpp>

#include <string>
#include <utility>
#include <vector>

namespace hvd::launch {
namespace {

namespace po = boost::program_options;
using po::command_line_style::allow_guessing;
using po::command_line_style::unix_style;

constexpr const char* kHelp =
    "Usage: horovodrun timeline [-o FILE] DIR\n"
    "\n"
    "Merges the traces that the ranks of a job with --timeline-all DIR have left in\n"
    "this folder, rank-N.json, into one for https://ui.perfetto.dev or\n"
    "chrome://tracing: a process for each rank, in it a thread for each tensor. Where\n"
    "hosts do not share the folder, copy their files into that of the machine on which\n"
    "horovodrun ran: there hosts.json says how the clocks of the hosts differ. Without\n"
    "it (the job was started by mpirun, srun, ...) ranks of different hosts are\n"
    "aligned by wall clocks, and this is said.\n"
    "\n"
    "  -o, --output FILE             write the merged trace there, not to standard output\n"
    "  -h, --help                    print this text\n"
    "\n"
    "Exit codes: 0 merged, perhaps with warnings on standard error; 2 wrong usage, or\n"
    "the folder has no such files, those of several jobs, two of one rank or one that\n"
    "is no trace; 125 a file cannot be read or written; 141 standard output closed.\n"
    "A program called timeline is started by `horovodrun -- timeline`.\n";

Error refuse(const std::string& message) {
    return {Errc::invalid_argument, "timeline: " + message};
}

}  // namespace

Result<Parsed> parse_timeline_command(const std::vector<std::string>& arguments) {
    try {
        po::options_description flags;
        flags.add_options()("output,o", po::value<std::string>(), "")("help,h", "")(
            "folder", po::value<std::vector<std::string>>(), "");
        po::positional_options_description places;
        places.add("folder", -1);
        po::variables_map values;
        po::store(po::command_line_parser(arguments)
                      .options(flags)
                      .positional(places)
                      .style(unix_style & ~allow_guessing)
                      .run(),
                  values);
        if (values.contains("help")) {
            return Parsed(PrintAndExit{kHelp});
        }
        const auto folders = values.contains("folder")
                                 ? values["folder"].as<std::vector<std::string>>()
                                 : std::vector<std::string>();
        if (folders.empty() || folders.front().empty()) {
            return refuse("name the folder of --timeline-all");
        }
        if (folders.size() != 1) {
            return refuse("there is more than one folder: " + folders[0] + " and " + folders[1]);
        }
        MergeTimelines request{.folder = folders.front()};
        if (values.contains("output")) {
            request.output = values["output"].as<std::string>();
            if (request.output->empty()) {
                return refuse("the name behind -o is empty");
            }
        }
        return Parsed(std::move(request));
    } catch (const po::error& error) {  // this library reports by throwing; nothing above us does
        return refuse(error.what());
    }
}

}  // namespace hvd::launch
