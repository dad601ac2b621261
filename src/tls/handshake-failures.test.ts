import { expect, test } from 'vitest'
import { failureReason } from './handshake-failures.ts'

test.each([
  ['ERR_SSL_HTTP_REQUEST', 'not_tls'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'version'],
  ['ERR_SSL_NO_SHARED_CIPHER', 'cipher'],
  ['ERR_SSL_NO_APPLICATION_PROTOCOL', 'protocol'],
  ['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 'client_certificate'],
  ['ERR_SSL_TLSV1_ALERT_UNKNOWN_CA', 'rejected_by_client'],
  ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_UNKNOWN', 'rejected_by_client'],
  ['ECONNRESET', 'closed'],
  ['ERR_SSL_SOMETHING_NEW', 'other'],
  [undefined, 'other'],
])('%s is counted as %s', (code, reason) => {
  expect(failureReason(code, false)).toBe(reason)
  expect(failureReason(code, true)).toBe('client_certificate')
})
