/// The body of `POST /v1/events` that says which variant of an experiment the user saw.
struct ExposureReport: Codable, Sendable {
  struct Event: Codable {
    var type = "experiment_exposed"
    var properties: Properties
  }

  struct Properties: Codable {
    var experiment: String
    var variant: String
  }

  var events: [Event]

  init(experiment: String, variant: String) {
    events = [Event(properties: Properties(experiment: experiment, variant: variant))]
  }
}

/// The answer to it.
struct EventsRecorded: Codable, Sendable {
  var recorded: Int
}
