import type { ListenAddress } from '../../../src/listen/listeners.ts'

/** The port of an address that is one; undefined where a listener is not open. */
export function portOf(address: ListenAddress): number
export function portOf(address: ListenAddress | undefined): number | undefined
export function portOf(address: ListenAddress | undefined): number | undefined {
  if (address === undefined) return undefined
  if ('path' in address) throw new Error(`${address.path} is no port`)
  return address.port
}
