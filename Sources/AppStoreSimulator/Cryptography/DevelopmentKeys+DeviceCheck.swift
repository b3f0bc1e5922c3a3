/// The key of the simulated DeviceCheck. Written by `scripts/make-simulator-pki`; do not edit. It is as public as the
/// others.
extension DevelopmentKeys {
  /// Callers of the simulated DeviceCheck sign their tokens with it; Apple hands out such keys as .p8 files.
  static let deviceCheckKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgqHSBS/c2PPrVdH71
    4PXy3BqliInxBIZ04TdTupvnfFahRANCAARbIZBadbPyg3I2oCFmD01zU9m5qI13
    W7RxKB3x8DxO1tMLf//PxT1IqUG+yDIP4BDgx9c8v8LGIUOjcD1GiHC7
    -----END PRIVATE KEY-----
    """
}
