// SPDX-License-Identifier: Apache-2.0
//
// The checks of examples/kubernetes that need no cluster: the commands are ones that horovodrun
// takes, and names, ports and files that have to agree do.
#include "launcher/cli/options.hpp"
#include "launcher/hosts/allocation.hpp"
#include "tests/support/temp_dir.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include <yaml-cpp/yaml.h>

using namespace hvd::launch;  // NOLINT(google-build-using-namespace): a test of this namespace

namespace {

std::vector<YAML::Node> documents(const std::string& name) {
    return YAML::LoadAllFromFile(HVD_EXAMPLES "/kubernetes/" + name);
}

YAML::Node find(const std::vector<YAML::Node>& documents,
                const std::string& kind,
                const std::string& name) {
    const auto found = std::ranges::find_if(documents, [&](const YAML::Node& document) {
        return document["kind"].as<std::string>() == kind &&
               document["metadata"]["name"].as<std::string>() == name;
    });
    REQUIRE(found != documents.end());
    return *found;
}

/// The only container of a pod.
YAML::Node container_of(const YAML::Node& owner) {
    const auto containers = owner["template"]["spec"]["containers"];
    REQUIRE(containers.size() == 1);
    return containers[0];
}

/// The request that horovodrun reads from a container's command.
template <typename Request>
Request parse(const YAML::Node& container, const hvd::Environment& environment = {}) {
    REQUIRE(container["command"].as<std::vector<std::string>>() ==
            std::vector<std::string>{"horovodrun"});
    auto parsed = parse_command_line(container["args"].as<std::vector<std::string>>(), environment);
    REQUIRE(parsed);
    REQUIRE(std::holds_alternative<Request>(*parsed));
    return std::get<Request>(*std::move(parsed));
}

/// The secret in which the container finds `file`, with the key that its name is.
std::string secret_of(const YAML::Node& owner, const std::filesystem::path& file) {
    for (const auto& mount : container_of(owner)["volumeMounts"]) {
        if (mount["mountPath"].as<std::string>() != file.parent_path()) {
            continue;
        }
        for (const auto& volume : owner["template"]["spec"]["volumes"]) {
            if (volume["name"].as<std::string>() == mount["name"].as<std::string>()) {
                return volume["secret"]["secretName"].as<std::string>() + "/" +
                       file.filename().string();
            }
        }
    }
    return "";
}

bool selects(const YAML::Node& labels, const YAML::Node& pod) {
    return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
        const auto other = pod["metadata"]["labels"][label.first.template as<std::string>()];
        return other && other.template as<std::string>() == label.second.template as<std::string>();
    });
}

}  // namespace

TEST_CASE("every object of the examples for Kubernetes has a kind, a version and a name") {
    for (const auto* name : {"mpijob.yaml", "statefulset.yaml"}) {
        const auto all = documents(name);
        REQUIRE_FALSE(all.empty());
        for (const auto& document : all) {
            CHECK(document["apiVersion"].IsScalar());
            CHECK(document["kind"].IsScalar());
            CHECK(document["metadata"]["name"].IsScalar());
        }
    }
}

TEST_CASE("the launcher of the MPIJob takes hosts and slots from the operator") {
    const auto job = find(documents("mpijob.yaml"), "MPIJob", "fashion-mnist");
    CHECK(job["apiVersion"].as<std::string>() == "kubeflow.org/v2beta1");
    const auto spec = job["spec"];
    const auto replicas = spec["mpiReplicaSpecs"];
    REQUIRE(replicas["Launcher"]["replicas"].as<int>() == 1);

    // As the operator writes it for Open MPI.
    const int workers = replicas["Worker"]["replicas"].as<int>();
    const int slots = spec["slotsPerWorker"].as<int>();
    std::string hosts;
    for (int worker = 0; worker < workers; ++worker) {
        hosts += "fashion-mnist-worker-" + std::to_string(worker) +
                 ".fashion-mnist.default.svc slots=" + std::to_string(slots) + "\n";
    }
    const hvd::test::TempDir folder;
    const hvd::Environment environment{
        {"KUBERNETES_SERVICE_HOST", "10.96.0.1"},
        {"OMPI_MCA_orte_default_hostfile", folder.write("hostfile", hosts).string()}};
    const auto request = parse<LaunchRequest>(container_of(replicas["Launcher"]), environment);
    const auto allocation = find_allocation(environment);

    CHECK_FALSE(request.mpi.is_wanted);
    CHECK_FALSE(request.processes);
    CHECK(request.command.front() == "python3");
    REQUIRE(allocation);
    REQUIRE(*allocation);
    CHECK(std::accumulate((*allocation)->hosts.begin(), (*allocation)->hosts.end(), 0,
                          [](int sum, const Host& host) { return sum + host.slots.value_or(0); }) ==
          workers * slots);
}

TEST_CASE("the pods of the StatefulSet join the job that waits for as many") {
    const auto all = documents("statefulset.yaml");
    const auto service = find(all, "Service", "fashion-mnist");
    const auto workers_service = find(all, "Service", "fashion-mnist-worker");
    const auto job = find(all, "Job", "fashion-mnist");
    const auto workers = find(all, "StatefulSet", "fashion-mnist-worker");
    const auto listening = parse<LaunchRequest>(container_of(job["spec"]));
    const auto joining = parse<JoinRequest>(container_of(workers["spec"]));

    REQUIRE(listening.hosts.listen);
    CHECK(listening.hosts.join_count == workers["spec"]["replicas"].as<int>());
    CHECK(listening.processes == *listening.hosts.join_count * joining.slots);
    CHECK(listening.command.front() == "python3");

    CHECK(joining.launcher.host == service["metadata"]["name"].as<std::string>());
    CHECK(joining.launcher.port == listening.hosts.listen->port);
    CHECK(joining.launcher.port == service["spec"]["ports"][0]["port"].as<int>());
    CHECK(joining.launcher.port ==
          container_of(job["spec"])["ports"][0]["containerPort"].as<int>());
    CHECK(selects(service["spec"]["selector"], job["spec"]["template"]));
    CHECK_FALSE(selects(service["spec"]["selector"], workers["spec"]["template"]));
    CHECK(selects(workers["spec"]["selector"]["matchLabels"], workers["spec"]["template"]));
    CHECK(workers["spec"]["serviceName"].as<std::string>() ==
          workers_service["metadata"]["name"].as<std::string>());
    CHECK(selects(workers_service["spec"]["selector"], workers["spec"]["template"]));

    REQUIRE(listening.hosts.join_token_file);
    REQUIRE(joining.token_file);
    const auto secret = secret_of(job["spec"], *listening.hosts.join_token_file);
    CHECK(secret == "horovod-join/token");
    CHECK(secret == secret_of(workers["spec"], *joining.token_file));
}
