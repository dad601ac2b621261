/** Why a handshake failed, as the metric says it. */
export const FAILURE_REASONS = [
  'not_tls',
  'version',
  'cipher',
  'protocol',
  'client_certificate',
  'rejected_by_client',
  'timeout',
  'closed',
  'other',
] as const

export type HandshakeFailure = (typeof FAILURE_REASONS)[number]

/** The beginning of what OpenSSL and Node call the errors of clients; the first that fits counts. */
const BY_CODE: readonly (readonly [start: string, reason: HandshakeFailure])[] = [
  ['ERR_SSL_HTTP_REQUEST', 'not_tls'],
  ['ERR_SSL_HTTPS_PROXY_REQUEST', 'not_tls'],
  ['ERR_SSL_WRONG_VERSION_NUMBER', 'not_tls'],
  ['ERR_SSL_UNSUPPORTED_PROTOCOL', 'version'],
  ['ERR_SSL_VERSION_TOO_LOW', 'version'],
  ['ERR_SSL_NO_SHARED_CIPHER', 'cipher'],
  ['ERR_SSL_NO_SHARED_SIGNATURE_ALGORITHMS', 'cipher'],
  ['ERR_SSL_NO_SUITABLE_', 'cipher'],
  ['ERR_SSL_NO_APPLICATION_PROTOCOL', 'protocol'],
  ['ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE', 'client_certificate'],
  ['ERR_SSL_CERTIFICATE_VERIFY_FAILED', 'client_certificate'],
  ['ERR_SSL_TLSV1_ALERT_', 'rejected_by_client'],
  ['ERR_SSL_TLSV13_ALERT_', 'rejected_by_client'],
  ['ERR_SSL_SSLV3_ALERT_', 'rejected_by_client'],
  ['ECONNRESET', 'closed'],
  ['EPIPE', 'closed'],
]

/** `code` is that of the error; `isUnauthorized` if the client's certificate is not one of the authorities'. */
export function failureReason(code: string | undefined, isUnauthorized: boolean): HandshakeFailure {
  if (isUnauthorized) return 'client_certificate'
  return BY_CODE.find(([start]) => code?.startsWith(start))?.[1] ?? 'other'
}
