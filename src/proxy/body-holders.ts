import { type Address, subjectText } from '../address.ts'
import { clientAddress, type TrustedProxies } from '../request/client-address.ts'
import type { RequestView } from '../request/view.ts'
import type { BodyMemory } from './body-memory.ts'
import type { MemoryHolders } from './memory-part.ts'
import type { Peer } from './peer.ts'

/** Of one address, whatever keys its requests have. */
const ADDRESS_SHARES = 2

/**
 * Whom a body's memory is counted for. `caller` has the limit keys of the rules that need the body, with their values; without any, the
 * client's address is the caller. Many keys are what a client says they are, and it may make up as many as it likes: so all bodies of its
 * address are bounded, too. Behind a proxy that does not say for whom it forwards, nobody knows that address.
 */
export function bodyHolders(
  memory: BodyMemory,
  trustedProxies: TrustedProxies,
  caller: readonly string[],
  view: RequestView,
  peer: Peer,
): MemoryHolders {
  const address = addressOf(view, trustedProxies)
  const addressText = address === undefined ? peer.address : subjectText(address)
  const holder = memory.holder(caller.length > 0 ? ['caller', ...caller] : ['peer', addressText], 1)
  if (address === undefined || trustedProxies.includes(address)) return [holder]
  return [holder, memory.holder(['address', addressText], ADDRESS_SHARES)]
}

function addressOf(view: RequestView, trustedProxies: TrustedProxies): Address | undefined {
  const forwardedFor = view.header('x-forwarded-for')
  return typeof forwardedFor === 'string' ? clientAddress(forwardedFor, trustedProxies) : undefined
}
