/// The part of the development PKI that signs JWS, for StoreKit 2, the Server API and notifications. Written by
/// `scripts/make-simulator-pki`; do not edit. Its private keys are as public as the others.
extension DevelopmentKeys {
  /// The root of all signed data, on P-384. Its key was thrown away.
  static let signedDataRootCertificate = """
    -----BEGIN CERTIFICATE-----
    MIICRTCCAcugAwIBAgIUAcCBmlSZ+0033lIfhZ4olBtosfEwCgYIKoZIzj0EAwMw
    YjEgMB4GA1UECgwXQ291bnRlcnNpZ24gRGV2ZWxvcG1lbnQxPjA8BgNVBAMMNUNv
    dW50ZXJzaWduIFNpbXVsYXRvciBTaWduZWQgRGF0YSBSb290IENBIChub3QgQXBw
    bGUpMB4XDTEwMDEwMTAwMDAwMFoXDTQ5MTIzMTIzNTk1OVowYjEgMB4GA1UECgwX
    Q291bnRlcnNpZ24gRGV2ZWxvcG1lbnQxPjA8BgNVBAMMNUNvdW50ZXJzaWduIFNp
    bXVsYXRvciBTaWduZWQgRGF0YSBSb290IENBIChub3QgQXBwbGUpMHYwEAYHKoZI
    zj0CAQYFK4EEACIDYgAEYObe/R5Nr7JsOCi6nQ06giACFmER8DE75L0F6zXfuerW
    +O+Dk13EWyLPy4oOScgdwVTTvXzJkicqQPOH+W1ALN3g338Nz/X4PXMK4SieAsvj
    ZUfWFhPamQ5u8mauSsqBo0IwQDAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQE
    AwIBBjAdBgNVHQ4EFgQUPDd2XCIsuhYIdJ5Ew/20+fmaxgAwCgYIKoZIzj0EAwMD
    aAAwZQIxANGFTB0MpLiFPm33FaUR8YbfU4h5EavcKgTbA7feHi1BQXtpywqnhqda
    znotjlVquQIwF4fu4s3VkEpuh1NvvGTc0blHNQcw4FHrmYTuYEgJRRmAAArf1kF+
    sMtjl98B60D8
    -----END CERTIFICATE-----
    """

  /// CA:true and the marker extension 1.2.840.113635.100.6.2.1. Its key was thrown away.
  static let signedDataIntermediateCertificate = """
    -----BEGIN CERTIFICATE-----
    MIICZzCCAe2gAwIBAgIUQBFaLMEIkz6KmxbRsgAn/5lqMpIwCgYIKoZIzj0EAwMw
    YjEgMB4GA1UECgwXQ291bnRlcnNpZ24gRGV2ZWxvcG1lbnQxPjA8BgNVBAMMNUNv
    dW50ZXJzaWduIFNpbXVsYXRvciBTaWduZWQgRGF0YSBSb290IENBIChub3QgQXBw
    bGUpMB4XDTEwMDEwMTAwMDAwMFoXDTQ5MTIzMTIzNTk1OVowUTEgMB4GA1UECgwX
    Q291bnRlcnNpZ24gRGV2ZWxvcG1lbnQxLTArBgNVBAMMJENvdW50ZXJzaWduIFNp
    bXVsYXRvciBTaWduZWQgRGF0YSBDQTB2MBAGByqGSM49AgEGBSuBBAAiA2IABOu8
    62fPzZBmlVZ8TmjNf++SRwEPRhu+iRP2lB974DAgyHLj7w9l0pB8c+d1fXyAT1Kq
    avQ8lZjCSf/A5JCE0B8HJqH20RJuEpRpxXAm/EytLioEgS18KAccRLb1TO7tTaN1
    MHMwDwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAQYwHQYDVR0OBBYEFIz+
    zZYX5W9YPY4kEAKP81aQmvtVMB8GA1UdIwQYMBaAFDw3dlwiLLoWCHSeRMP9tPn5
    msYAMBAGCiqGSIb3Y2QGAgEEAgUAMAoGCCqGSM49BAMDA2gAMGUCMAhhcmklDhvO
    UR5QOq/yuvArZPe66nIgegAD5sv5U1NncKXY95wCaMBl+6tlNkCXswIxAKa4HTD3
    AiEma9pl9uQriKBfsJsgjou3qbrTDlJefZmjTDtmkOROC2QGIsdeTO5/CQ==
    -----END CERTIFICATE-----
    """

  /// On P-256, with the marker extension 1.2.840.113635.100.6.11.1; signs JWS.
  static let signedDataLeafCertificate = """
    -----BEGIN CERTIFICATE-----
    MIICOzCCAcGgAwIBAgIUaprZGBvK+dIGL/b/XIAs8lQ7BzYwCgYIKoZIzj0EAwMw
    UTEgMB4GA1UECgwXQ291bnRlcnNpZ24gRGV2ZWxvcG1lbnQxLTArBgNVBAMMJENv
    dW50ZXJzaWduIFNpbXVsYXRvciBTaWduZWQgRGF0YSBDQTAeFw0xMDAxMDEwMDAw
    MDBaFw00OTEyMzEyMzU5NTlaMFYxIDAeBgNVBAoMF0NvdW50ZXJzaWduIERldmVs
    b3BtZW50MTIwMAYDVQQDDClDb3VudGVyc2lnbiBTaW11bGF0b3IgU2lnbmVkIERh
    dGEgU2lnbmluZzBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABITjeFY2a5yV6Jh9
    hLladtbjOrVSXHzkJCaoQjvliE8HsnOGQcSErYQ3AuHAwpUHtulhB8fn1pbUI5Dh
    DeK1Yk2jcjBwMAwGA1UdEwEB/wQCMAAwDgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQW
    BBTqZM3fcVM2tJEQgKHTWoXy/gMVOjAfBgNVHSMEGDAWgBSM/s2WF+VvWD2OJBAC
    j/NWkJr7VTAQBgoqhkiG92NkBgsBBAIFADAKBggqhkjOPQQDAwNoADBlAjEA16+J
    QJ7TVzjjIVgmH58E9jWgri3Vfr6bszIOG/1ZE8FE3+DGjidmVrOeHMdSw2rYAjAt
    mMolgLrcOTz4c8nChspG7meV8uKLrPghyWX+7v28kRVlUP7YTf3SFcDKMSh1lgM=
    -----END CERTIFICATE-----
    """

  /// Signs JWS.
  static let signedDataLeafKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg4JWOTOv8mqnbCh4x
    SP6KlMKzXQsz741P0WFGTivLNYehRANCAASE43hWNmucleiYfYS5WnbW4zq1Ulx8
    5CQmqEI75YhPB7JzhkHEhK2ENwLhwMKVB7bpYQfH59aW1COQ4Q3itWJN
    -----END PRIVATE KEY-----
    """

  /// Callers of the simulated Server API sign their tokens with it; App Store Connect hands out such keys as .p8 files.
  static let serverAPIKey = """
    -----BEGIN PRIVATE KEY-----
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBFHcn4Z2CxfGWhxE
    VO0yRJS+hVehbYfZiNguI+SODN+hRANCAAR5Z1DDFsf+wrg6rN8aVVr53Sf8OYM8
    IymqVQcHbPgQplHrig9DJQDC1Ot2ac2yQHdgwbJqUqNlkHhEe79S1keM
    -----END PRIVATE KEY-----
    """
}
