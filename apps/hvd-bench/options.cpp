// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/options.hpp"

#include "collectives/base/text.hpp"

#include <boost/program_options.hpp>

#include <array>
#include <sstream>
#include <string_view>
#include <utility>

namespace po = boost::program_options;

namespace hvd::bench {
namespace {

constexpr std::array kOps = {coll::Op::allreduce, coll::Op::allgather, coll::Op::broadcast,
                             coll::Op::barrier};
constexpr std::array kReduceOps = {coll::ReduceOp::average, coll::ReduceOp::sum,
                                   coll::ReduceOp::min, coll::ReduceOp::max,
                                   coll::ReduceOp::product};

Error invalid(std::string_view flag, const std::string& value, std::string_view expected) {
    return {Errc::invalid_argument,
            std::string(flag) + " '" + value + "': expected " + std::string(expected)};
}

/// The value whose name is `text`.
template <class Value, std::size_t kCount>
std::optional<Value> named(std::string_view text, const std::array<Value, kCount>& values) {
    for (const auto value : values) {
        if (to_string(value) == text) {
            return value;
        }
    }
    return std::nullopt;
}

std::optional<coll::DataType> named_type(std::string_view text) {
    for (int number = 0; number < coll::kDataTypes; ++number) {
        const auto type = static_cast<coll::DataType>(number);
        if (to_string(type) == text) {
            return type;
        }
    }
    return std::nullopt;
}

/// "64K", "1M", "2G" or plain bytes.
std::optional<std::size_t> parse_bytes(std::string_view text) {
    std::size_t unit = 1;
    if (!text.empty()) {
        switch (text.back()) {
            case 'K': unit = std::size_t{1} << 10; break;
            case 'M': unit = std::size_t{1} << 20; break;
            case 'G': unit = std::size_t{1} << 30; break;
            default: break;
        }
    }
    const auto number =
        parse_number<std::size_t>(unit == 1 ? text : text.substr(0, text.size() - 1));
    if (!number || *number > (std::size_t{1} << 40) / unit) {
        return std::nullopt;
    }
    return *number * unit;
}

/// What was typed, before it is understood.
struct Words {
    std::string collective = "allreduce";
    std::string type = "float32";
    std::string op = "sum";
    std::string min = "4";
    std::string max = "64M";
    std::string mode;
};

Result<Options> understand(const Words& words, Options options) {
    const auto op = named(words.collective, kOps);
    if (!op) {
        return invalid("--collective", words.collective,
                       "allreduce, allgather, broadcast or barrier");
    }
    const auto reduce = named(words.op, kReduceOps);
    if (!reduce) {
        return invalid("--op", words.op, "average, sum, min, max or product");
    }
    const auto type = named_type(words.type);
    if (!type) {
        return invalid("--dtype", words.type, "float32, float64, float16, bfloat16, int32, ...");
    }
    const auto min = parse_bytes(words.min);
    const auto max = parse_bytes(words.max);
    if (!min || !max || *min > *max) {
        return invalid("--min and --max", words.min + " and " + words.max,
                       "bytes such as 4, 64K, 1M");
    }
    if (!words.mode.empty() && words.mode != "loop" && words.mode != "touch") {
        return invalid("--mode", words.mode, "loop or touch");
    }
    if (!words.mode.empty()) {
        options.mode = words.mode == "loop" ? Mode::loop : Mode::touch;
    }
    if ((options.iterations && *options.iterations < 1) || options.factor < 2) {
        return Error{Errc::invalid_argument, "--iters must be at least 1, --factor at least 2"};
    }
    options.op = *op;
    options.reduce = *reduce;
    options.type = *type;
    options.min_bytes = *min;
    options.max_bytes = *max;
    return options;
}

}  // namespace

Result<std::variant<Options, Help>> parse_options(int argc, const char* const* argv) {
    Words words;
    Options options;
    int iterations = 0;
    po::options_description flags(
        "hvd-bench: time and bandwidth of collectives, data checked.\n"
        "Run it alone, or as `horovodrun -np N hvd-bench [flags]`");
    auto add = flags.add_options();
    add("help,h", "this text");
    add("collective", po::value(&words.collective), "allreduce, allgather, broadcast or barrier");
    add("dtype", po::value(&words.type), "float32 (default), float64, float16, int32, ...");
    add("op", po::value(&words.op), "of allreduce: sum (default), average, min, max or product");
    add("min", po::value(&words.min), "smallest message of one rank: 4, 64K, 1M");
    add("max", po::value(&words.max), "largest message of one rank (64M)");
    add("factor", po::value(&options.factor), "from one size to the next (4)");
    add("iters", po::value(&iterations), "calls for each line; default: by size");
    add("mode", po::value(&words.mode), "loop or touch; default: both");
    add("csv", po::value<std::string>(), "also write the lines to this file");
    po::variables_map values;
    try {
        constexpr int kStyle = po::command_line_style::default_style &
                               ~static_cast<int>(po::command_line_style::allow_guessing);
        const auto parsed = po::command_line_parser(argc, argv).options(flags).style(kStyle).run();
        for (const auto& option : parsed.options) {
            if (option.position_key >= 0) {
                return Error{Errc::invalid_argument, "'" + option.original_tokens.front() +
                                                         "' is no flag; see hvd-bench --help"};
            }
        }
        po::store(parsed, values);
        po::notify(values);
    } catch (const po::error& error) {
        // The library's only way to report; from here on it is a value.
        return Error{Errc::invalid_argument, error.what()};
    }
    if (values.count("help") != 0) {
        std::ostringstream text;
        text << flags;
        return std::variant<Options, Help>(Help{text.str()});
    }
    if (values.count("iters") != 0) {
        options.iterations = iterations;
    }
    if (values.count("csv") != 0) {
        options.csv = values["csv"].as<std::string>();
    }
    HVD_TRY(auto understood, understand(words, std::move(options)));
    return std::variant<Options, Help>(std::move(understood));
}

}  // namespace hvd::bench
