// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/options.hpp"

#include "collectives/base/text.hpp"
#include "launcher/cli/flag.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/unit/launcher/command_lines.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

using hvd::Environment;
using hvd::Errc;
using hvd::launch::BindTo;
using hvd::launch::CheckBuild;
using hvd::launch::error;
using hvd::launch::GpuBind;
using hvd::launch::Host;
using hvd::launch::LaunchRequest;
using hvd::launch::LinePrefix;
using hvd::launch::MpiOptions;
using hvd::launch::OnFailure;
using hvd::launch::OutputFormat;
using hvd::launch::parse_command_line;
using hvd::launch::PortSpan;
using hvd::launch::PrintAndExit;
using hvd::launch::request;
using hvd::launch::RunTask;
using hvd::launch::SshOptions;
using hvd::launch::Words;
using hvd::launch::words;
using std::chrono::milliseconds;

namespace {

std::string page(std::string_view text, std::size_t columns = 80) {
    const auto parsed = parse_command_line(words(text), {}, columns);
    REQUIRE(parsed);
    const auto* page = std::get_if<PrintAndExit>(&*parsed);
    REQUIRE(page != nullptr);
    return page->text;
}

}  // namespace

TEST_CASE("the number of ranks has three names, and a value after '=' or a blank") {
    const auto* text = GENERATE("-np 4 a", "-n 4 a", "--num-proc 4 a", "--num-proc=4 a", "--np 4 a",
                                "-np=4 a", "-np 2 -np 4 a");
    CAPTURE(text);

    CHECK(request(text).processes == 4);
}

TEST_CASE("a short flag takes its value after '=' too") {
    CHECK(request("-H=localhost:2 -p=22 -n=2 a").hosts.list == std::vector<Host>{{"localhost", 2}});
    CHECK(request("-H localhost:2 -p=22 -n=2 a").ssh.port == 22);
    CHECK(error("-n=-2 a") == "-n -2: must be a whole number from 1 to 1048576");
    CHECK(error("-H= a") == "-H: its value is missing; write -H HOST[:SLOTS],...");
}

TEST_CASE("the command begins at the first word that is no flag, and is left untouched") {
    CHECK(request("-np 2 python train.py --epochs 3 -np 8 --help -x --").command ==
          Words{"python", "train.py", "--epochs", "3", "-np", "8", "--help", "-x", "--"});
    CHECK(request("-np 2 -- --strange -v").command == Words{"--strange", "-v"});
    CHECK(request("-np 2 -- -- a").command == Words{"--", "a"});
    CHECK(request("-np 2 --verbose 4").command == Words{"4"});

    const auto parsed = parse_command_line({"-np", "1", "sh", "-c", "echo  a; --np", ""}, {});
    REQUIRE(parsed);
    CHECK(std::get<LaunchRequest>(*parsed).command == Words{"sh", "-c", "echo  a; --np", ""});
}

TEST_CASE("every value of a request can be given by a flag") {
    const auto all = request(
        "-np 3 -H localhost:4 --gpu-bind env --gpus-per-rank 2 --share-gpus --bind-to none "
        "--no-oversubscribe --env A=1 --env B= --env "
        "C=x=y --env-pass NCCL_* --env-clean --output-filename out -prefix-timestamp --show 0,2 "
        "--progress-bars 0 "
        "--summary s.json --error-lines 7 --stdin 1 --verbose --start-timeout 5 --timeout 0.5 "
        "--grace 0 cmd");

    CHECK(all.processes == 3);
    CHECK(all.hosts.list == std::vector<Host>{{"localhost", 4}});
    CHECK(all.binding.gpus == GpuBind::env);
    CHECK(all.binding.gpus_per_rank == 2);
    CHECK_FALSE(all.binding.may_lack_gpus);
    CHECK(all.binding.share_gpus);
    CHECK(all.binding.cpus == BindTo::none);
    CHECK_FALSE(all.binding.may_oversubscribe);
    CHECK(all.environment.set == Environment{{"A", "1"}, {"B", ""}, {"C", "x=y"}});
    CHECK(all.environment.pass == Words{"NCCL_*"});
    CHECK(all.environment.is_clean);
    CHECK(all.report.notes.empty());
    CHECK(all.output.folder == "out");
    CHECK(all.output.prefix == LinePrefix::stamped());
    CHECK(all.output.show == std::vector{0, 2});
    CHECK(all.output.bars == std::vector{0});
    CHECK(all.report.summary == "s.json");
    CHECK(all.report.error_lines == 7);
    CHECK(all.input.rank == 1);
    CHECK_FALSE(all.input.is_for_all);
    CHECK(all.report.is_verbose);
    CHECK(all.limits.start_timeout == milliseconds(5000));
    CHECK(all.limits.timeout == milliseconds(500));
    CHECK(all.limits.grace == milliseconds(0));
}

TEST_CASE("the rank with the terminal may be named as the reader of standard input, too") {
    const auto both = request("-np 2 --pty 1 --stdin 1 --show 1 cmd");

    CHECK(both.input.terminal_rank == 1);
    CHECK(both.input.rank == 1);
}

TEST_CASE("a plan is asked for by flags") {
    const auto plan = request("-np 3 --dry-run --output-format json --facts f.json cmd");

    CHECK(plan.dry_run.is_wanted);
    CHECK(plan.dry_run.format == OutputFormat::json);
    CHECK(plan.dry_run.facts_file == "f.json");
}

TEST_CASE("hosts of several -H add up, as those of one do") {
    CHECK(request("-H a:1 -H b:2,a:3 cmd").hosts.list == std::vector<Host>{{"a", 4}, {"b", 2}});
    CHECK(error("-H a:1 -H b: cmd") ==
          "-H a:1,b:: host 'b:': the number of slots is missing, such as in 'node1:4'");
}

TEST_CASE("of several files only one would count, and so they are refused") {
    CHECK(error("-np 2 --config-file a.yaml --config-file b.yaml cmd") ==
          "--config-file b.yaml: it is written twice, before this with a.yaml; leave one out");
    CHECK_THAT(error("-hostfile a -np 2 --hostfile b cmd"),
               Catch::StartsWith("--hostfile b: it is written twice, before this with a"));
}

TEST_CASE("defaults are the documented ones") {
    const auto plain = request("-np 1 cmd");

    CHECK(plain.hosts.list.empty());
    CHECK_FALSE(plain.dry_run.is_wanted);
    CHECK(plain.dry_run.format == OutputFormat::text);
    CHECK(plain.binding.gpus == GpuBind::index);
    CHECK(plain.binding.gpus_per_rank == 1);
    CHECK(plain.binding.may_lack_gpus);
    CHECK(plain.binding.cpus == BindTo::share);
    CHECK(plain.binding.may_oversubscribe);
    CHECK(plain.environment.tunables.empty());
    CHECK(plain.report.notes.empty());
    CHECK(plain.limits.start_timeout == milliseconds(30'000));
    CHECK_FALSE(plain.limits.timeout);
    CHECK(plain.limits.grace == milliseconds(10'000));
    CHECK(plain.report.error_lines == 20);
    CHECK(plain.output.prefix == LinePrefix());
    CHECK_FALSE(plain.input.is_for_all);
    CHECK_FALSE(plain.input.rank);
}

TEST_CASE("a value that looks like the name of a flag is a value") {
    CHECK(request("-np 2 --summary env --output-filename verbose a").report.summary == "env");
}

TEST_CASE("flag --env-pass without --env-clean selects nothing, and says so") {
    CHECK(request("-np 2 --env-pass A a").report.notes ==
          Words{"--env-pass has no effect here without --env-clean: every variable is passed on"});
    CHECK(request("-np 2 -H node1:2 --env-pass A a").report.notes.empty());
}

TEST_CASE("flag --env NAME takes the value that the variable has here") {
    CHECK(request("-np 1 --env A a", {{"A", "7"}}).environment.set == Environment{{"A", "7"}});
    CHECK(error("-np 1 --env A a") == "--env A: A is not set here; write A=VALUE");
    CHECK(error("-np 1 --env =1 a") == "--env =1: write NAME=VALUE");
}

TEST_CASE("the number of ranks may be left out where hosts are given") {
    CHECK_FALSE(request("-H localhost:4 a").processes);
    CHECK(error("a") == "say how many ranks to start: -np N");
}

TEST_CASE("a command line that cannot be right is refused with flag, value and remedy") {
    struct Example {
        std::string text;
        std::string expected;
    };
    const auto& example = GENERATE(values<Example>({
        {"-np 2",
         "there is no command; write it after the flags: horovodrun -np 4 python3 "
         "train.py"},
        {"-np 2 --",
         "there is no command; write it after the flags: horovodrun -np 4 python3 "
         "train.py"},
        {"-np 0 a", "-np 0: must be a whole number from 1 to 1048576"},
        {"-np -4 a", "-np -4: must be a whole number from 1 to 1048576"},
        {"-np four a", "-np four: must be a whole number from 1 to 1048576"},
        {"--num-proc=99999999999 a",
         "--num-proc 99999999999: must be a whole number from 1 to 1048576"},
        {"-np 2 --gpu-bind all a",
         "--gpu-bind all: must be index (all GPUs visible, a rank uses its own), env (only its own "
         "is visible) or none"},
        {"-np 2 --bind-to core a",
         "--bind-to core: must be share (each rank gets an even share of the CPUs) or none"},
        {"-np 2 --stdin x a", "--stdin x: must be the number of a rank, or all"},
        {"-np 2 --pty all a", "--pty all: must be the number of a rank"},
        {"-np 2 --pty 2 a", "--pty names rank 2, but the ranks are 0 to 1"},
        {"-np 2 --pty 0 --stdin 1 a",
         "--pty 0 and --stdin 1: rank 0 has the terminal, and what is typed there; leave one of "
         "them out"},
        {"-np 2 --stdin all --pty 0 a",
         "--pty 0 and --stdin all: rank 0 has the terminal, and what is typed there; leave one of "
         "them out"},
        {"-np 2 --pty 0 --show 1 a",
         "--show leaves out rank 0, which has the terminal (--pty 0); add it"},
        {"-np 2 --mpi --pty 1 a",
         "--pty 1 does not work with --mpi, whose program starts the ranks; leave one of them out, "
         "or write --stdin 1"},
        {"-hostfile - --pty 0 a",
         "-hostfile - and --pty both read standard input; give the hosts in a file"},
        {"-np 2 --show 0-x a", "--show 0-x: must be ranks, such as 0,2-4"},
        {"-np 2 --show 0-2 a", "--show names rank 2, but the ranks are 0 to 1"},
        {"-np 2 --progress-bars 2 a", "--progress-bars names rank 2, but the ranks are 0 to 1"},
        {"-H localhost:2 --stdin 2 a", "--stdin names rank 2, but the ranks are 0 to 1"},
        {"-np 2 --prefix {pid} a",
         "--prefix {pid}: there is no field {pid}; those are {rank}, {host}, {local_rank}, "
         "{stream} and {time}, and {{ is a brace"},
        {"-np 2 --prefix none -prefix-timestamp a",
         "-prefix-timestamp and --prefix: write {time} into the prefix instead"},
        {"-np 2 --error-lines 1001 a", "--error-lines 1001: must be a whole number from 0 to 1000"},
        {"-np 2 --timeout 0 a", "--timeout 0: must be more than 0 seconds"},
        {"-np 2 --grace nan a", "--grace nan: must be a number of seconds from 0 to 31536000"},
        {"-np 2 --output-format json a",
         "--output-format is about the plan that --dry-run prints; add --dry-run"},
        {"-np 2 --facts f a", "--facts plans without starting anything; add --dry-run"},
        {"-np 2 -H a -hostfile f a",
         "-H and -hostfile: write one of them, not both; beside a host file -H may only leave "
         "hosts "
         "out, such as -H ^node3"},
        {"-np 2 -H a: a", "-H a:: host 'a:': the number of slots is missing, such as in 'node1:4'"},
        {"-np 2 -hostfile /nowhere/h a", "/nowhere/h: No such file or directory"},
        {"-np 2 --config-file /nowhere/c a", "/nowhere/c: No such file or directory"},
        {"-np 2 --fusion-threshold-mb -1 a",
         "--fusion-threshold-mb -1: '-1' must be a number from 0 to 1048576"},
        {"-np 2 --hierarchical-allreduce --no-hierarchical-allreduce a",
         "--no-hierarchical-allreduce: contradicts --hierarchical-allreduce"},
        {"-np 2 --port-range 9-7 a",
         "--port-range 9-7: must be two ports from 1 to 65535, such as 20000-20999"},
        {"-np 2 --network-interfaces eth0,, a",
         "--network-interfaces eth0,,: must be names, patterns or networks, such as "
         "eth0,ib*,10.0.0.0/8"},
        {"-np 2 --wrap it's a", "--wrap it's: a quote is not closed in 'it's'"},
        {"-np 2 --remote-shell \" a", "--remote-shell \": a quote is not closed in '\"'"},
        {"-np 2 --lease 0 a", "--lease 0: must be a number of seconds from 1 to 31536000"},
        {"-np 2 --on-failure x a",
         "--on-failure x: must be stop (the first failure ends the job) or wait (the others go "
         "on)"},
        {"-np 2 --ssh-port 70000 a", "--ssh-port 70000: must be a whole number from 1 to 65535"},
    }));
    CAPTURE(example.text);

    const auto parsed = parse_command_line(words(example.text), {});

    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().message == example.expected);
}

TEST_CASE("a missing or superfluous value is an error that names the flag") {
    CHECK(error("-np") == "-np: its value is missing; write -np N");
    CHECK(error("-np --verbose a") == "-np: its value is missing; write -np N");
    CHECK(error("-np 2 --summary= a") == "--summary: its value is missing; write --summary FILE");
    CHECK(error("-np 2 --env -- a") == "--env --: -- is not set here; write --=VALUE");
    CHECK(error("-np 2 --verbose=yes a") == "--verbose takes no value, but got =yes");
}

TEST_CASE("flags of parts that do not exist yet are refused with a sentence") {
    const auto* elastic =
        GENERATE("--min-np 2", "--min-num-proc 2", "--max-np 4", "--slots-per-host 2", "--slots 2",
                 "--host-discovery-script ./d.sh", "--elastic-timeout 5", "--reset-limit 1",
                 "--blacklist-cooldown-range 1 2");
    CAPTURE(elastic);

    const auto parsed = parse_command_line(words("-np 2 " + std::string(elastic) + " a"), {});

    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().code == Errc::unsupported);
    CHECK_THAT(parsed.error().message, Catch::Contains("elastic jobs are not part of"));
}

TEST_CASE("mode --mpi takes its arguments, and its program from HOROVOD_MPIRUN") {
    const auto parsed =
        parse_command_line({"-np", "2", "--mpi", "--tcp", "--mpi-args=-x A", "--mpi-args", "-x B",
                            "--binding-args=--bind-to core", "train"},
                           {{"HOROVOD_MPIRUN", "/opt/mpirun"}});

    REQUIRE(parsed);
    CHECK(std::get<LaunchRequest>(*parsed).mpi == MpiOptions{.is_wanted = true,
                                                             .program = "/opt/mpirun",
                                                             .args = {"-x", "A", "-x", "B"},
                                                             .binding_args = {"--bind-to", "core"},
                                                             .is_tcp = true});
}

TEST_CASE("a command in a flag is split as sh splits it, quotes included") {
    const auto parsed = parse_command_line(
        {"-np", "2", "--remote-shell", "kexec -n 'two jobs'", "--wrap", R"(env "A=b c" \x)", "a"},
        {});
    const auto open = parse_command_line({"-np", "2", "--mpi", "--mpi-args=-x 'A", "a"}, {});
    const auto strange = parse_command_line({"-np", "2", "--wrap", R"(sh "it's")", "a"}, {});

    REQUIRE(parsed);
    CHECK(std::get<LaunchRequest>(*parsed).ssh.remote_shell == Words{"kexec", "-n", "two jobs"});
    CHECK(std::get<LaunchRequest>(*parsed).ssh.wrap == Words{"env", "A=b c", "x"});
    REQUIRE_FALSE(open);
    CHECK_THAT(open.error().message, Catch::Contains("a quote is not closed in '-x 'A'"));
    REQUIRE_FALSE(strange);
    CHECK_THAT(strange.error().message, Catch::Contains("the word it's has a quote"));
}

TEST_CASE("mpirun may be told a shell of its own for other hosts") {
    CHECK(request("-np 2 --mpi -H a,b --remote-shell r --mpi-args=-launcher-exec=r a").mpi.args ==
          Words{"-launcher-exec=r"});
}

TEST_CASE("what mpirun cannot do, or is not asked to, is refused") {
    const auto [flags, why] = GENERATE(table<std::vector<std::string>, std::string>({
        {{"--mpi-args=-x A"}, "add --mpi or --jsrun"},
        {{"--binding-args=-x"}, "add --mpi"},
        {{"--mpi", "--dry-run", "--facts", "x"}, "--facts does not work with --mpi"},
        {{"--mpi", "--jsrun"}, "--mpi and --jsrun: each is a way to start the ranks; write one"},
        {{"--mpi", "--gloo"}, "--gloo and --mpi: each is a way"},
        {{"--gloo", "--jsrun"}, "--gloo and --jsrun: each is a way"},
        {{"--mpi", "--wrap", "w"}, "--wrap 'w' does not work with --mpi, whose program starts"},
        {{"--mpi", "-H", "a,b", "--remote-shell", "r"}, "--mpi: --remote-shell 'r' starts the"},
        {{"--mpi", "-H", "a,me@b"}, "host b is for user me and a for the user that ssh takes"},
        {{"--mpi", "-H", "a,ssh://b:22/1,ssh://c:23/1"}, "hosts b and c have different ports"},
        {{"--mpi", "-H", "a,[fe80::1]"}, "host [fe80::1] is an IPv6 address, which mpirun cannot"},
        {{"--jsrun"}, "inside of an LSF job, and none is here (LSB_MCPU_HOSTS, "},
    }));
    std::vector<std::string> words{"-np", "2"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.emplace_back("train");

    const auto parsed = parse_command_line(words, {});

    REQUIRE_FALSE(parsed);
    CHECK_THAT(parsed.error().message, Catch::Contains(why));
}

TEST_CASE("flags about other hosts are read") {
    const auto one =
        request("-np 2 -p 2222 -i /dev/null --ssh-concurrency 8 --wrap w --remote-shell /o/ssh a");
    const auto network =
        request("-np 2 --network-interface eth0,ib* --network-interfaces 10.0.0.0/8 a");
    const auto rules = request("-np 2 --lease 2.5 --on-failure wait --exit-timeout 0 a");

    CHECK(one.ssh == SshOptions{.port = 2222,
                                .identity = "/dev/null",
                                .concurrency = 8,
                                .remote_shell = {"/o/ssh"},
                                .wrap = {"w"}});
    CHECK(network.environment.tunables.at("HOROVOD_NETWORK_INTERFACES") == "eth0,ib*,10.0.0.0/8");
    CHECK(request("-np 2 --port-range 7-9 a").environment.tunables.at("HOROVOD_PORT_RANGE") ==
          "7-9");
    CHECK(rules.limits.lease == milliseconds(2500));
    CHECK(rules.limits.on_failure == OnFailure::wait);
    CHECK(rules.limits.exit_timeout == milliseconds(0));
}

TEST_CASE("a key file that cannot be read is refused, since ssh would take another key") {
    const hvd::test::TempDir folder;
    const auto home = folder.path().string();
    (void)folder.write("key", "");
    const Environment caller{{"HOME", home}};

    CHECK(request("-np 2 -i " + home + "/key a").ssh.identity == home + "/key");
    CHECK(request("-np 2 --ssh-identity-file=~/key a", caller).ssh.identity == home + "/key");
    CHECK(error("-np 2 -i " + home + "/gone a") ==
          "-i " + home +
              "/gone: No such file or directory; name the file of a private key, or of the public "
              "half of a key that an agent has, or leave -i out for the keys of ~/.ssh/config");
    CHECK_THAT(error("-np 2 -i ~/gone a", caller),
               Catch::StartsWith("-i " + home + "/gone: No such file"));
    CHECK_THAT(error("-np 2 -i " + home + " a"),
               Catch::StartsWith("-i " + home + ": Is a directory; name the file"));
    CHECK_THAT(error("doctor -i " + home + "/gone"), Catch::StartsWith("-i " + home + "/gone: No"));
}

TEST_CASE("ports to listen at come from wherever the ranks would find them") {
    using Ports = std::optional<PortSpan>;
    const Environment caller{{"HOROVOD_PORT_RANGE", "10-12"}};

    CHECK(request("-np 2 a").hosts.ports == Ports());
    CHECK(request("-np 2 --port-range 7-9 a").hosts.ports == Ports({7, 9}));
    CHECK(request("-np 2 --port-range 7 a").hosts.ports == Ports({7, 7}));
    CHECK(request("-np 2 a", caller).hosts.ports == Ports({10, 12}));
    CHECK(request("-np 2 --port-range 7-9 a", caller).hosts.ports == Ports({7, 9}));
    CHECK(request("-np 2 --port-range 7-9 --env HOROVOD_PORT_RANGE=8-8 a").hosts.ports ==
          Ports({8, 8}));
    CHECK(request("-np 2 --port-range 7-9 --listen h:8 --join-hosts 1 a").hosts.listen->port == 8);
    CHECK_THAT(error("-np 2 a", {{"HOROVOD_PORT_RANGE", "9-8"}}),
               Catch::StartsWith("HOROVOD_PORT_RANGE=9-8: must be two ports"));
    CHECK(error("-np 2 --port-range 7-9 --listen h:10 --join-hosts 1 a") ==
          "--listen h:10: port 10 is not in --port-range 7-9; take one of these, or 0 for any");
}

TEST_CASE("a flag that would do nothing beside another launcher is refused") {
    const Environment task{{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}};

    CHECK_THAT(error("--timeout 9 train", task),
               Catch::StartsWith("--timeout has no effect under mpirun"));
    CHECK_THAT(error("--env-clean train", task), Catch::StartsWith("--env-clean has no effect"));
    CHECK_THAT(error("--env A=1 mpirun -np 2 train"),
               Catch::StartsWith("--env has no effect in front of mpirun"));
    CHECK(parse_command_line(words("--env A=1 --bind-to none --verbose --cycle-time-ms 3 train"),
                             task));
}

TEST_CASE("a job in a rank of horovodrun is refused, and the questions about jobs are not") {
    const Environment rank{{"HOROVOD_RANK", "0"},        {"HOROVOD_SIZE", "1"},
                           {"HOROVOD_LOCAL_RANK", "0"},  {"HOROVOD_LOCAL_SIZE", "1"},
                           {"HOROVOD_CROSS_RANK", "0"},  {"HOROVOD_CROSS_SIZE", "1"},
                           {"HOROVOD_HOSTNAME", "h"},    {"HOROVOD_JOB_ID", std::string(32, '0')},
                           {"HOROVOD_AGENT_SOCKET", "a"}};

    for (const auto* job : {"-np 2 a", "-H h:2 a", "-np 1 --mpi a"}) {
        CAPTURE(job);
        CHECK(error(job, rank) ==
              "already rank 0 of 1 under horovodrun; leave -np, -H and -hostfile out to run the "
              "command as that rank, or start horovodrun outside of that job, or set "
              "HOROVOD_LAUNCHER=none for a job of its own");
    }
    CHECK_THAT(error("--timeout 9 a", rank), Catch::StartsWith("--timeout has no effect under"));
    const auto task = parse_command_line(words("a"), rank);
    REQUIRE(task);
    CHECK(std::get<RunTask>(*task).task.launcher == "horovodrun");
    for (const auto* question : {"doctor -H h", "-np 2 --dry-run a", "--check-build"}) {
        CAPTURE(question);
        CHECK(parse_command_line(words(question), rank));
    }
    auto own = rank;
    own["HOROVOD_LAUNCHER"] = "none";
    CHECK(std::holds_alternative<LaunchRequest>(parse_command_line(words("-np 2 a"), own).value()));
}

TEST_CASE("version, help and build check need nothing else and win over the rest") {
    CHECK_THAT(page("--version"), Catch::Matches(R"([0-9]+\.[0-9]+\.[0-9]+\n)"));
    CHECK(page("-v") == page("--version"));
    CHECK(page("-np nonsense -h").starts_with("Usage: horovodrun"));
    for (const auto* text : {"-cb", "--check-build", "--cb", "-cb --verbose", "-np 2 -cb a"}) {
        CAPTURE(text);
        const auto parsed = parse_command_line(words(text), {});
        REQUIRE(parsed);
        CHECK(std::holds_alternative<CheckBuild>(*parsed));
    }
}

TEST_CASE("help is one screen, and help all shows every group within the width of the terminal") {
    const auto widest = [](const std::string& text) {
        std::size_t most = 0;
        for (const auto line : hvd::split(text, '\n')) {
            most = std::max(most, line.size());
        }
        return most;
    };
    const auto first = page("--help");
    const auto all = page("--help all");

    CHECK(std::ranges::count(first, '\n') <= 24);
    CHECK_THAT(first, Catch::Contains("--help all"));
    for (const auto* title : {"Job:", "Hosts:", "CPUs and GPUs:", "Environment of the ranks:",
                              "Input and output:", "Time limits:", "Tuning:", "Timeline:",
                              "Stall check:", "Libraries:", "Logging:", "About:"}) {
        CHECK_THAT(all, Catch::Contains("\n" + std::string(title) + "\n"));
    }
    for (const auto* words : {"--help", "--help all", "doctor --help"}) {
        CHECK(widest(page(words)) <= 80);
        CHECK(widest(page(words, 100)) <= 100);
        CHECK(widest(page(words, 400)) <= 120);
    }
    CHECK(widest(page("--help all", 100)) > 80);
}

TEST_CASE("a flag is listed if it has an effect") {
    const auto all = page("--help all");

    for (const auto& group : hvd::launch::flag_groups()) {
        for (const auto& flag : group.flags) {
            CAPTURE(flag.spelling);
            const auto line = "\n  " + std::string(flag.spelling);
            const bool is_listed = all.find(line + " ") != std::string::npos ||
                                   all.find(line + "\n") != std::string::npos;
            CHECK(is_listed == !flag.help.empty());
            CHECK_FALSE((is_listed && (has_no_effect(flag) || is_elastic(flag))));
        }
    }
    CHECK(page("--help all").find("--autotune") == std::string::npos);
}

TEST_CASE("help for the doctor is the doctor's own") {
    const auto text = page("doctor --help");

    CHECK_THAT(text, Catch::StartsWith("Usage: horovodrun doctor"));
    CHECK(page("--help doctor") == text);
    CHECK_THAT(text, Catch::Contains("--json") && !Catch::Contains("--dry-run"));
}

TEST_CASE("no name stands for two flags, and no key for two settings") {
    std::set<std::string_view> names;
    std::set<std::string_view> keys;
    for (const auto& group : hvd::launch::flag_groups()) {
        for (const auto& flag : group.flags) {
            CAPTURE(flag.spelling);
            std::set<std::string_view> own;
            for (const auto name : flag.names) {
                own.insert(hvd::launch::bare_name(name));
                CHECK((name.empty() || hvd::launch::find_flag(name) == &flag));
            }
            own.erase("");
            CHECK(std::ranges::all_of(own, [&](auto name) { return names.insert(name).second; }));
            const auto key = flag.setting.key;
            CHECK((key.empty() || keys.insert(key).second));
        }
    }
}
