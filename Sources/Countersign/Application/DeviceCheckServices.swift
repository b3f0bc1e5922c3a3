import AppStore
import CountersignServer
import HTTPTransport
import Resilience
import Validation

extension ServiceConfiguration {
  /// The trials, and the client of DeviceCheck with a transport of its own.
  func trialSettings(environment: ServiceEnvironment, _ closers: inout Closers) throws(StartError) -> Trials.Settings {
    var settings = Trials.Settings(
      terms: trials, deadline: min(appStore.deadline, .seconds(5)),
      soleApp: appStore.orderedBundleIDs.count == 1 ? appStore.orderedBundleIDs.first : nil)
    guard let section = deviceCheck else { return settings }
    let configuration: DeviceCheck.Configuration
    do { configuration = try section.checkedConfiguration() } catch {
      throw StartError(description: "device_check.\(error.name): \(error.sentence)")
    }
    let transport = try environment.transport(CurlTransport.Configuration(caFile: section.caFile))
    closers.add(transport.shutdown)
    var timing = CallTiming.live
    timing.date = { environment.clock.now }
    let deadline = settings.deadline
    settings.deviceCheck = DeviceCheck(
      transport: transport, configuration: configuration, timing: timing,
      breakers: Dictionary(
        uniqueKeysWithValues: DeviceCheck.Server.allCases.map { server in
          (
            server,
            CircuitBreaker.logging("device_check_\(server.rawValue)", environment.logger, deadline: deadline)
          )
        }))
    settings.requiresDeviceCheck = section.isRequired
    return settings
  }
}
