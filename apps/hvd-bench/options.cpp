// SPDX-License-Identifier: Apache-2.0
#include "apps/hvd-bench/options.hpp"

#include "collectives/base/text.hpp"

#include <boost/program_options.hpp>

#include <array>
#include <climits>
#include <sstream>
#include <string_view>
#include <utility>

namespace po = boost::program_options;

namespace hvd::bench {
namespace {

template <class Value>
struct Named {
    std::string_view name;
    Value value;
};

constexpr auto kCollectives = std::to_array<Named<Collective>>({
    {"allreduce", Collective::allreduce},
    {"allgather", Collective::allgather},
    {"broadcast", Collective::broadcast},
    {"alltoall", Collective::alltoall},
    {"reducescatter", Collective::reducescatter},
    {"barrier", Collective::barrier},
});
// The first name of a value is ours, another one that of nccl-tests.
constexpr auto kReduceOps = std::to_array<Named<ReduceOp>>({
    {"sum", ReduceOp::sum},
    {"product", ReduceOp::product},
    {"prod", ReduceOp::product},
    {"min", ReduceOp::min},
    {"max", ReduceOp::max},
    {"average", ReduceOp::average},
    {"avg", ReduceOp::average},
    {"adasum", ReduceOp::adasum},
});
constexpr auto kTypeAliases = std::to_array<Named<coll::DataType>>({
    {"half", coll::DataType::f16},
    {"float", coll::DataType::f32},
    {"double", coll::DataType::f64},
});
constexpr auto kModes = std::to_array<Named<Mode>>({{"loop", Mode::loop}, {"touch", Mode::touch}});

template <class Value, std::size_t kCount>
std::string_view name_of(Value value, const std::array<Named<Value>, kCount>& names) {
    for (const auto& named : names) {
        if (named.value == value) {
            return named.name;
        }
    }
    return "?";
}

Error invalid(std::string_view flag, const std::string& value, std::string_view expected) {
    return {Errc::invalid_argument,
            std::string(flag) + " '" + value + "': expected " + std::string(expected)};
}

template <class Value, std::size_t kCount>
Result<Value> named(std::string_view flag,
                    const std::string& text,
                    const std::array<Named<Value>, kCount>& names) {
    std::string all;
    for (const auto& [name, value] : names) {
        if (name == text) {
            return value;
        }
        all += (all.empty() ? "" : ", ") + std::string(name);
    }
    return invalid(flag, text, all);
}

Result<coll::DataType> parse_type(const std::string& text) {
    std::string all;
    for (int number = 0; number < coll::kDataTypes; ++number) {
        const auto type = static_cast<coll::DataType>(number);
        if (coll::to_string(type) == text) {
            return type;
        }
        all += std::string(coll::to_string(type)) + ", ";
    }
    for (const auto& [name, type] : kTypeAliases) {
        if (name == text) {
            return type;
        }
    }
    return invalid("--datatype", text, all + "half, float, double");
}

/// "64K", "1m", "2G" or plain bytes; K, M and G are powers of 1024.
Result<std::size_t> parse_bytes(std::string_view flag, const std::string& text) {
    std::size_t unit = 1;
    switch (text.empty() ? ' ' : text.back()) {
        case 'K':
        case 'k': unit = std::size_t{1} << 10; break;
        case 'M':
        case 'm': unit = std::size_t{1} << 20; break;
        case 'G':
        case 'g': unit = std::size_t{1} << 30; break;
        default: break;
    }
    const auto digits = std::string_view(text).substr(0, text.size() - (unit == 1 ? 0 : 1));
    const auto number = parse_number<std::size_t>(digits);
    if (!number || *number > (std::size_t{1} << 40) / unit) {
        return invalid(flag, text, "bytes such as 4, 64K, 1M, 2G");
    }
    return *number * unit;
}

Result<int> parse_int(std::string_view flag, const std::string& text, int least) {
    const auto number = parse_number<int>(text);
    if (!number || *number < least) {
        return invalid(flag, text, "a number from " + std::to_string(least));
    }
    return *number;
}

/// The options as typed, before parsing. Empty: not given, the default holds.
struct Words {
    std::string collective;
    std::string type;
    std::string op;
    std::string min;
    std::string max;
    std::string step;
    std::string factor;
    std::string iterations;
    std::string warm_up;
    std::string root;
    std::string check;
    std::string mode;
    std::string csv;
    std::string json;
};

Status understand_sizes(const Words& words, Options& options) {
    if (!words.min.empty()) {
        HVD_TRY(options.min_bytes, parse_bytes("--minbytes", words.min));
    }
    if (!words.max.empty()) {
        HVD_TRY(options.max_bytes, parse_bytes("--maxbytes", words.max));
    }
    if (options.min_bytes > options.max_bytes) {
        return invalid("--maxbytes", words.max.empty() ? "64M" : words.max,
                       "at least --minbytes, " + std::to_string(options.min_bytes));
    }
    if (!words.factor.empty()) {
        HVD_TRY(const int factor, parse_int("--stepfactor", words.factor, 2));
        options.factor = static_cast<std::size_t>(factor);
    }
    if (!words.step.empty()) {
        HVD_TRY(options.step_bytes, parse_bytes("--stepbytes", words.step));
        if (options.step_bytes == 0 || !words.factor.empty()) {
            return invalid("--stepbytes", words.step, "at least 1, and no --stepfactor beside it");
        }
    }
    return ok();
}

Status understand_calls(const Words& words, Options& options) {
    if (!words.iterations.empty()) {
        HVD_TRY(options.iterations, parse_int("--iters", words.iterations, 1));
    }
    if (!words.warm_up.empty()) {
        HVD_TRY(options.warm_up, parse_int("--warmup_iters", words.warm_up, 0));
    }
    if (!words.root.empty()) {
        HVD_TRY(options.root, parse_int("--root", words.root, 0));
    }
    if (!words.check.empty()) {
        if (words.check != "0" && words.check != "1") {
            return invalid("--check", words.check, "0 or 1");
        }
        options.checks = words.check == "1";
    }
    if (!words.mode.empty()) {
        HVD_TRY(options.mode, named("--mode", words.mode, kModes));
    }
    return ok();
}

Result<Options> understand(const Words& words) {
    Options options;
    if (!words.collective.empty()) {
        HVD_TRY(options.collective, named("--collective", words.collective, kCollectives));
    }
    if (!words.op.empty()) {
        HVD_TRY(options.reduce, named("--op", words.op, kReduceOps));
    }
    if (!words.type.empty()) {
        HVD_TRY(options.type, parse_type(words.type));
    }
    HVD_TRY_STATUS(understand_sizes(words, options));
    HVD_TRY_STATUS(understand_calls(words, options));
    if (options.reduce == ReduceOp::adasum && options.collective == Collective::reducescatter) {
        return invalid("--op", words.op, "with reducescatter any but adasum");
    }
    options.csv = words.csv;
    options.json = words.json;
    return options;
}

/// Reads the flags into the words; whether --help is among them.
Result<bool> read_words(int argc, const char* const* argv, const po::options_description& flags) {
    po::variables_map values;
    try {
        constexpr int kStyle = po::command_line_style::default_style &
                               ~static_cast<int>(po::command_line_style::allow_guessing);
        const auto parsed = po::command_line_parser(argc, argv).options(flags).style(kStyle).run();
        for (const auto& option : parsed.options) {
            if (!option.value.empty() && option.value.front().empty()) {
                return invalid("--" + option.string_key, "", "a value");
            }
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
    return values.count("help") != 0;
}

}  // namespace

std::string_view to_string(Collective collective) {
    return name_of(collective, kCollectives);
}

std::string_view to_string(ReduceOp op) {
    return name_of(op, kReduceOps);
}

std::string_view to_string(Mode mode) {
    return name_of(mode, kModes);
}

Result<std::variant<Options, Help>> parse_options(int argc, const char* const* argv) {
    Words words;
    po::options_description flags(
        "hvd-bench: time and bandwidth of collectives, data checked.\n"
        "Run it alone, or as `horovodrun -np N hvd-bench [flags]`. The flags are those of\n"
        "nccl-tests; sizes are the bytes of one rank's input, with K, M or G");
    auto add = flags.add_options();
    const auto word = [](std::string& place) { return po::value(&place); };
    add("help,h", "this text");
    add("collective", word(words.collective),
        "allreduce (default), allgather, broadcast, alltoall, reducescatter or barrier");
    add("minbytes,b", word(words.min), "smallest size (4)");
    add("maxbytes,e", word(words.max), "largest size (64M)");
    add("stepbytes,i", word(words.step), "bytes from one size to the next, instead of a factor");
    add("stepfactor,f", word(words.factor), "factor from one size to the next (4)");
    add("iters,n", word(words.iterations), "calls for each line; default: by size");
    add("warmup_iters,w", word(words.warm_up), "calls before them, each checked (3)");
    add("op,o", word(words.op),
        "of allreduce and reducescatter: sum (default), prod, min, max, avg or adasum");
    add("datatype,d", word(words.type),
        "float (default), double, half, bfloat16, int32, uint8, ...");
    add("root,r", word(words.root), "the rank whose data a broadcast sends (0)");
    add("check,c", word(words.check), "1: compare all results with what they must be (1)");
    add("mode", word(words.mode),
        "loop: calls back to back; touch: all ranks rewrite their data and meet before each call; "
        "default: both");
    add("csv", word(words.csv), "also write the lines to this file, comma-separated");
    add("json,J", word(words.json), "also write them to this file as JSON");
    HVD_TRY(const bool wants_help, read_words(argc, argv, flags));
    if (wants_help) {
        std::ostringstream text;
        text << flags;
        return std::variant<Options, Help>(Help{text.str()});
    }
    HVD_TRY(auto understood, understand(words));
    return std::variant<Options, Help>(std::move(understood));
}

}  // namespace hvd::bench
