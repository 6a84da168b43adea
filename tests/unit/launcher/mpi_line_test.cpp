// SPDX-License-Identifier: Apache-2.0
#include "collectives/base/text.hpp"
#include "launcher/mpi/command_line.hpp"
#include "launcher/mpi/flavor.hpp"

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <vector>

using namespace hvd::launch::mpi;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

/// Two hosts, two ranks each, everything else as it is without flags.
Job plain(Kind kind) {
    return {.kind = kind,
            .hosts = {{"node1", 2}, {"node2", 2}},
            .variables = {"HOROVOD_MPI_JOB", "PATH"},
            .command = {"/opt/hvd-agent", "exec", "--", "python3", "train it.py"}};
}

std::string line_of(const Job& job) {
    const auto line = make_line(job);
    REQUIRE(line);
    return hvd::quote_words(line->argv);
}

std::string error_of(const Job& job) {
    const auto line = make_line(job);
    REQUIRE_FALSE(line);
    return line.error().message;
}

constexpr std::string_view kEnd = " /opt/hvd-agent exec -- python3 'train it.py'";

}  // namespace

TEST_CASE("each MPI is known by what its mpirun says") {
    const auto [text, kind] = GENERATE(table<std::string, Kind>({
        {"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n",
         Kind::open_mpi_4},
        {"mpirun (Open MPI) 3.1.6\n", Kind::open_mpi_4},
        {"mpirun (OpenRTE) 2.0.2\n", Kind::open_mpi_4},
        {"mpirun (Open MPI) 5.0.3\n\nReport bugs to https://www.open-mpi.org/community/help/\n",
         Kind::open_mpi_5},
        {"mpirun (PRRTE) 3.0.5\n", Kind::open_mpi_5},
        {"mpirun (IBM Spectrum MPI) 10.3.1.02rtm0\n", Kind::spectrum},
        {"HYDRA build details:\n    Version:                                 4.0.2\n", Kind::mpich},
        {"mpiexec (MPICH) 3.4\n", Kind::mpich},
        {"Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)\n"
         "Copyright 2003-2023, Intel Corporation.\n",
         Kind::intel},
    }));
    CAPTURE(text);

    const auto detected = detect_kind(text, "mpirun");

    REQUIRE(detected);
    CHECK(*detected == kind);
}

TEST_CASE("an unknown mpirun is refused with what it said") {
    const auto detected = detect_kind("toy launcher 1\nmore\n", "/opt/mpirun");

    REQUIRE_FALSE(detected);
    CHECK(detected.error().message ==
          "/opt/mpirun --version says 'toy launcher 1', which is none of Open MPI, MPICH, Intel "
          "MPI and Spectrum MPI; name another program in HOROVOD_MPIRUN, or leave --mpi out");
}

TEST_CASE("Open MPI 4 is told places, no binding and names of variables") {
    CHECK(line_of(plain(Kind::open_mpi_4)) ==
          "mpirun --allow-run-as-root --tag-output --stdin none -np 4 -H node1:2,node2:2 "
          "--bind-to none --map-by slot -x HOROVOD_MPI_JOB -x PATH" +
              std::string(kEnd));
}

TEST_CASE("Open MPI 5 has other words for the same") {
    CHECK(line_of(plain(Kind::open_mpi_5)) ==
          "mpirun --allow-run-as-root --output tag --stdin none -np 4 -H node1:2,node2:2 "
          "--bind-to none --map-by slot -x HOROVOD_MPI_JOB -x PATH" +
              std::string(kEnd));
}

TEST_CASE("Spectrum MPI gets -tcp with --tcp") {
    auto job = plain(Kind::spectrum);
    job.options.is_tcp = true;

    CHECK(line_of(job) ==
          "mpirun --allow-run-as-root --tag-output --stdin none -np 4 -H node1:2,node2:2 "
          "--bind-to none --map-by slot -tcp -x HOROVOD_MPI_JOB -x PATH" +
              std::string(kEnd));
}

TEST_CASE("MPICH gets its hosts with counts") {
    auto job = plain(Kind::mpich);
    job.hosts = {{"node1", 3}, {"node2", 1}};

    CHECK(line_of(job) ==
          "mpirun -l -np 4 -hosts node1:3,node2:1 -bind-to none -genvlist HOROVOD_MPI_JOB,PATH" +
              std::string(kEnd));
}

TEST_CASE("Intel MPI gets one count for all hosts, and its binding by a variable") {
    auto job = plain(Kind::intel);

    CHECK(line_of(job) ==
          "mpirun -l -np 4 -ppn 2 -hosts node1,node2 -genvlist HOROVOD_MPI_JOB,PATH" +
              std::string(kEnd));
    CHECK(make_line(job)->env == hvd::Environment{{"I_MPI_PIN", "off"}});

    job.hosts = {{"node1", 3}, {"node2", 1}};
    CHECK(error_of(job) ==
          "Intel MPI cannot start different numbers of ranks on hosts (node1:3,node2:1); give all "
          "hosts the same number of slots");
}

TEST_CASE("no line turns a fabric off") {
    const auto kind =
        GENERATE(Kind::open_mpi_4, Kind::open_mpi_5, Kind::spectrum, Kind::mpich, Kind::intel);
    auto job = plain(kind);
    job.options.is_tcp = kind != Kind::spectrum;

    const auto line = line_of(job);

    CHECK(line.find("pml") == std::string::npos);
    CHECK(line.find('^') == std::string::npos);
    CHECK(line.find("tcp") == std::string::npos);
}

TEST_CASE("more ranks than slots are allowed in the way of each MPI") {
    auto job = plain(Kind::open_mpi_4);
    job.is_oversubscribed = true;
    CHECK(line_of(job).find("--bind-to none --map-by slot --oversubscribe ") != std::string::npos);

    job.kind = Kind::open_mpi_5;
    CHECK(line_of(job).find("--bind-to none --map-by slot:OVERSUBSCRIBE -x") != std::string::npos);

    job.kind = Kind::mpich;
    CHECK(line_of(job).find("versubscribe") == std::string::npos);
}

TEST_CASE("flags --binding-args and --mpi-args stand where MPI reads them") {
    auto job = plain(Kind::open_mpi_4);
    job.options.binding_args = {"--bind-to", "socket"};
    job.options.args = {"--mca", "pml", "ucx"};

    CHECK(line_of(job) ==
          "mpirun --allow-run-as-root --tag-output --stdin none -np 4 -H node1:2,node2:2 "
          "--bind-to socket -x HOROVOD_MPI_JOB -x PATH --mca pml ucx" +
              std::string(kEnd));

    job.kind = Kind::mpich;
    CHECK(line_of(job) ==
          "mpirun -l -np 4 -hosts node1:2,node2:2 --bind-to socket -genvlist "
          "HOROVOD_MPI_JOB,PATH --mca pml ucx" +
              std::string(kEnd));
}

TEST_CASE("port and identity go to the ssh of each MPI, and interfaces to its connections") {
    auto job = plain(Kind::open_mpi_4);
    job.ssh.port = 2222;
    job.ssh.identity = "/home/a/id";
    job.options.interfaces = {"eth0"};
    const auto has = [&](std::string_view part) {
        CAPTURE(part, line_of(job));
        CHECK(line_of(job).find(part) != std::string::npos);
    };

    has("--mca plm_rsh_args '-p 2222 -i /home/a/id' --mca btl_tcp_if_include eth0 --mca "
        "oob_tcp_if_include eth0");
    job.kind = Kind::open_mpi_5;
    has("--prtemca plm_ssh_args '-p 2222 -i /home/a/id' --mca btl_tcp_if_include eth0 --prtemca "
        "oob_tcp_if_include eth0");
    job.kind = Kind::intel;
    has("-bootstrap ssh -bootstrap-exec-args '-p 2222 -i /home/a/id' -iface eth0");
    job.kind = Kind::mpich;
    has("-launcher ssh -iface eth0");
    CHECK(make_line(job)->env ==
          hvd::Environment{{"HYDRA_LAUNCHER_EXTRA_ARGS", "-p 2222 -i /home/a/id"}});

    job.options.interfaces = {"eth0", "ib0"};
    CHECK(error_of(job) ==
          "MPICH cannot use several interfaces (eth0,ib0); name one in --network-interfaces");
}

TEST_CASE("from 64 hosts on Open MPI's daemons are started by one program") {
    auto job = plain(Kind::open_mpi_4);
    job.hosts.clear();
    for (int host = 0; host < 64; ++host) {
        job.hosts.push_back({"n" + std::to_string(host), 1});
    }

    CHECK(line_of(job).find("--mca plm_rsh_no_tree_spawn true --mca plm_rsh_num_concurrent "
                            "64") != std::string::npos);
    job.hosts.pop_back();
    CHECK(line_of(job).find("plm_rsh") == std::string::npos);
}

TEST_CASE("standard input goes where it was asked to, or the line is refused") {
    auto job = plain(Kind::open_mpi_4);
    job.input = Input::one;
    job.input_rank = 3;
    CHECK(line_of(job).find("--stdin 3 ") != std::string::npos);
    job.input = Input::all;
    CHECK(line_of(job).find("--stdin all ") != std::string::npos);

    job.kind = Kind::mpich;
    CHECK(error_of(job) ==
          "MPICH cannot give standard input to another rank than 0; use --stdin 0, or leave --mpi "
          "out");
}
