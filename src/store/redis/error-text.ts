import type { RedisAddress } from './redis-address.ts'

const MAX_LENGTH = 300

/** What went wrong, without the secrets of the address: a server may repeat what it was sent. */
export function errorText(error: unknown, address: RedisAddress): string {
  let text = messageOf(error)
  for (const secret of secretsOf(address)) if (secret) text = text.replaceAll(secret, '…')
  return text.length > MAX_LENGTH ? `${text.slice(0, MAX_LENGTH)}…` : text
}

function messageOf(error: unknown): string {
  // A host with several addresses: there is an error for each, and no message of its own.
  if (error instanceof AggregateError && error.message === '') return error.errors.map(messageOf).join('; ')
  return error instanceof Error ? error.message : String(error)
}

function secretsOf(address: RedisAddress): readonly (string | undefined)[] {
  return address.kind === 'sentinel' ? [address.password, address.sentinelPassword] : [address.password]
}
