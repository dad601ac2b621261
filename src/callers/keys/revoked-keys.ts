const MIN_PLACES = 16
const ID_MODULUS = 2 ** 48

/**
 * The ids of all keys that were ever revoked. They are never forgotten: a file of keys in Git may keep the line of a revoked key for years, and an import
 * of it must not bring the key back. A hash table with open addressing, at most three quarters full: 11 to 21 bytes a key.
 */
export class RevokedKeys {
  /** Ids as numbers plus one; 0 is a free place. Ids are evenly spread, so their lower bits are their hashes. */
  #places = new Float64Array(MIN_PLACES)
  #size = 0
  #sum = 0

  get size(): number {
    return this.#size
  }

  /** The sum of all ids, modulo 2^48: two that know the same ones have the same sum. */
  get sum(): number {
    return this.#sum
  }

  has(id: string): boolean {
    return this.#places[this.#placeOf(Number.parseInt(id, 16) + 1)] !== 0
  }

  /** Returns whether it was not known. */
  add(id: string): boolean {
    const number = Number.parseInt(id, 16)
    const place = this.#placeOf(number + 1)
    if (this.#places[place] !== 0) return false
    this.#places[place] = number + 1
    this.#sum = (this.#sum + number) % ID_MODULUS
    this.#size++
    if (this.#size * 4 > this.#places.length * 3) this.#grow()
    return true
  }

  /** Yields the ids in no order; one that is added meanwhile perhaps not. */
  *ids(): Generator<string> {
    for (const number of this.#places) if (number !== 0) yield (number - 1).toString(16).padStart(12, '0')
  }

  /** Returns where the number is, or where it would be. */
  #placeOf(number: number): number {
    const mask = this.#places.length - 1
    let at = number & mask
    while (this.#places[at] !== 0 && this.#places[at] !== number) at = (at + 1) & mask
    return at
  }

  #grow(): void {
    const old = this.#places
    this.#places = new Float64Array(old.length * 2)
    for (const number of old) if (number !== 0) this.#places[this.#placeOf(number)] = number
  }
}
