import { addressSubject } from '../text/address.ts'

/** What clients have here, such as connections: by their address (IPv6: by /64), and for each address the oldest first. */
export class ByAddress<Thing extends object> {
  readonly #groups = new Map<string, Set<Thing>>()
  #size = 0

  get size(): number {
    return this.#size
  }

  get addresses(): number {
    return this.#groups.size
  }

  add(address: string | undefined, thing: Thing): void {
    const subject = addressSubject(address)
    const group = this.#groups.get(subject)
    if (group?.has(thing)) return
    this.#size++
    if (group === undefined) this.#groups.set(subject, new Set([thing]))
    else group.add(thing)
  }

  /** Returns whether it was there. */
  delete(address: string | undefined, thing: Thing): boolean {
    const subject = addressSubject(address)
    const group = this.#groups.get(subject)
    if (group?.delete(thing) !== true) return false
    this.#size--
    if (group.size === 0) this.#groups.delete(subject)
    return true
  }

  countOf(address: string | undefined): number {
    return this.#groups.get(addressSubject(address))?.size ?? 0
  }

  /** The things of the address that has most of them. This visits all addresses. */
  most(): ReadonlySet<Thing> {
    let most: ReadonlySet<Thing> = new Set()
    for (const group of this.#groups.values()) if (group.size > most.size) most = group
    return most
  }

  /**
   * Yields the oldest thing of each address in turn, for as long as the caller takes them out with `delete`: an address that has more is then asked again
   * behind all others, next time as well.
   */
  *inTurn(): Generator<Thing> {
    for (const [subject, group] of this.#groups) {
      const oldest: Thing = group.values().next().value!
      yield oldest
      if (group.has(oldest) || group.size === 0) continue
      this.#groups.delete(subject)
      this.#groups.set(subject, group)
    }
  }
}
