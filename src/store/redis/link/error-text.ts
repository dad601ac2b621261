import type { RedisAddress } from './redis-address.ts'

const MAX_LENGTH = 300

/** OpenSSL's codes where the server replies to a TLS handshake in plain text. */
const NOT_TLS: ReadonlySet<unknown> = new Set(['ERR_SSL_WRONG_VERSION_NUMBER', 'ERR_SSL_PACKET_LENGTH_TOO_LONG'])

/** What went wrong, without the secrets of the address: a server may repeat what it was sent. */
export function errorText(error: unknown, address: RedisAddress): string {
  let text = knownCause(error) ?? messageOf(error)
  for (const secret of secretsOf(address)) if (secret) text = text.replaceAll(secret, '…')
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

/** For errors whose own message is misleading. */
function knownCause(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  // From a client that is not authenticated, Redis does not read a call as long as ours.
  if (/unauthenticated (multi)?bulk length/.test(error.message)) return 'NOAUTH a password is needed'
  if ('code' in error && NOT_TLS.has(error.code)) return 'it does not speak TLS'
  return undefined
}

function messageOf(error: unknown): string {
  // A host with several addresses: one error for each, and no message of its own.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}

function secretsOf(address: RedisAddress): readonly (string | undefined)[] {
  return address.kind === 'sentinel' ? [address.password, address.sentinelPassword] : [address.password]
}
