import ArgumentParser

/// `bench`: measures the service, each figure beside what bounds it in the same run.
@main
struct Bench: AsyncParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "bench",
    abstract: "Measure Countersign: CPU, latency, memory, and what they are bounded by.",
    subcommands: [
      RunCommand.self, UpstreamCommand.self, RouteCommand.self, TransportCommand.self, VerificationCommand.self,
      PartsCommand.self, PathsCommand.self, CommitCommand.self, SeedCommand.self, PlanCommand.self,
    ],
    defaultSubcommand: RunCommand.self)
}
