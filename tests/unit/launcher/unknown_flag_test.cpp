// SPDX-License-Identifier: Apache-2.0
//
// Words that were meant to be flags, and the messages about them.
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <string>

using hvd::launch::error;
using hvd::launch::request;
using hvd::launch::Words;

TEST_CASE("an unknown flag is an error that names the nearest known one") {
    CHECK(error("-np 2 --fusion-treshold-mb 4 a") ==
          "unknown flag '--fusion-treshold-mb'; did you mean --fusion-threshold-mb?");
    CHECK(error("--dryrun -np 2 a") == "unknown flag '--dryrun'; did you mean --dry-run?");
    CHECK(error("-np 2 --completely-unknown=3 a") ==
          "unknown flag '--completely-unknown'; 'horovodrun --help all' lists the flags");
}

TEST_CASE("a guess is neither by accident nor the opposite") {
    const auto* flag = GENERATE("-x2", "-m", "-f", "-k", "-mc", "--verbatim", "--no-verbose",
                                "--no-share-gpus", "--no-gloo", "--max", "--elastic");
    CAPTURE(flag);

    CHECK(error("-np 2 " + std::string(flag) + " a") ==
          "unknown flag '" + std::string(flag) + "'; 'horovodrun --help all' lists the flags");
}

TEST_CASE("flags are not abbreviated, because a later flag would change what they mean") {
    struct Example {
        std::string flag;
        std::string guess;
    };
    const auto& example = GENERATE(values<Example>({
        {"--fusion", "--fusion-threshold-mb"},
        {"--autotune-log", "--autotune-log-file"},
        {"--start", "--start-timeout"},
        {"-hostf", "-hostfile"},
        {"--out", "one of --output-format, --output-filename"},
        {"--no-over", "--no-oversubscribe"},
    }));

    const auto text = error("-np 2 " + example.flag + " 4 a");

    CHECK(text == "unknown flag '" + example.flag + "'; did you mean " + example.guess + "?");
}

TEST_CASE("a flag of other launchers is answered with ours") {
    struct Example {
        std::string flag;
        std::string advice;
    };
    const auto& example = GENERATE(values<Example>({
        {"-x", "write --env NAME[=VALUE]"},
        {"-machinefile", "write -hostfile FILE"},
        {"--nproc-per-node=4", "the slots of the hosts say so: -H node1:4,node2:4"},
        {"--nproc_per_node=4", "the slots of the hosts say so: -H node1:4,node2:4"},
        {"-ppn", "the slots of the hosts say so: -H node1:4,node2:4"},
        {"--nnodes", "the hosts are those of -H node1:4,node2:4 or -hostfile FILE"},
        {"--allow-run-as-root", "it is not needed here; leave it out"},
        {"--map-by", "ranks fill the hosts in their order"},
        {"-mca", "MCA parameters are for Open MPI"},
    }));

    CHECK_THAT(error("-np 2 " + example.flag + " a"),
               Catch::StartsWith("unknown flag '" + example.flag.substr(0, example.flag.find('=')) +
                                 "'; " + example.advice));
}

TEST_CASE("a value that sticks to its flag is to be written apart") {
    CHECK(error("-np4 a") == "unknown flag '-np4'; write a space: -np 4");
    CHECK(error("-n4 a") == "unknown flag '-n4'; write a space: -n 4");
    CHECK(error("-np 2 -p22 a") == "unknown flag '-p22'; write a space: -p 22");
    CHECK(error("-Hlocalhost:2 a") ==
          "unknown flag '-Hlocalhost:2'; write a space: -H localhost:2");
}

TEST_CASE("a number of ranks behind the command is said to stand in the wrong place") {
    const auto* tail = GENERATE("-np 2", "--np=2", "--num-proc 2");

    CHECK_THAT(error("python s.py " + std::string(tail)),
               Catch::StartsWith("say how many ranks to start: ") &&
                   Catch::EndsWith(" stands behind the command 'python', which gets it; write it "
                                   "before: horovodrun -np N python s.py"));
    CHECK(error("head -n 2 file") == "say how many ranks to start: -np N");
}

TEST_CASE("a dash that only looks like one is named") {
    const auto [word, name, wanted] = GENERATE(table<std::string, std::string, std::string>({
        {"\u2013np", "U+2013", "-np"},
        {"\u2014H", "U+2014", "-H"},
        {"\u2212\u2212np", "U+2212", "--np"},
    }));

    for (const std::string flags : {"", "-np 2 "}) {
        CHECK(error(flags + word + " 2 a") ==
              "'" + word + "' begins with another dash (" + name +
                  ") than '-', as text editors put in its place; write " + wanted);
    }
}

TEST_CASE("a command that is nearly called doctor or timeline is asked about") {
    CHECK(error("docter -H a:1") ==
          "say how many ranks to start: -np N; or did you mean horovodrun doctor?");
    CHECK(error("timelin traces") ==
          "say how many ranks to start: -np N; or did you mean horovodrun timeline?");
    CHECK(request("-np 1 docter").command == Words{"docter"});
}
