import type { LookupFunction } from 'node:net'
import { type Address, isLoopback, isMetadataAddress, METADATA_ADDRESS, parseAddress } from '../text/address.ts'

/**
 * Resolves names of hosts that a bundle may choose. A name may resolve to anything, and to something else each time it is asked for: so the addresses that
 * will be connected to are checked.
 */
export function guardedLookup(lookup: LookupFunction, isLoopbackOnly: boolean): LookupFunction {
  return (hostname, options, callback) =>
    lookup(hostname, options, (error, found, family) => {
      const addresses = typeof found === 'string' ? [found] : (found ?? []).map(({ address }) => address)
      const problem = error === null ? addresses.map((text) => textProblem(text, isLoopbackOnly)).find(Boolean) : undefined
      if (problem === undefined) callback(error, found, family)
      else callback(new Error(problem), found, family)
    })
}

function textProblem(text: string, isLoopbackOnly: boolean): string | undefined {
  const address = parseAddress(text)
  return address === undefined ? 'its host name resolves to something that is no address' : addressProblem(address, isLoopbackOnly)
}

/** Says why edge does not connect to this address; undefined if it does. */
export function addressProblem(address: Address, isLoopbackOnly: boolean): string | undefined {
  if (isMetadataAddress(address)) return `its host is ${METADATA_ADDRESS}, to which edge does not connect`
  if (isLoopbackOnly && !isLoopback(address))
    return 'its host is not a loopback address, and http:// is allowed to loopback addresses alone'
  return undefined
}
