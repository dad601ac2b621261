interface Numbered {
  /** The order of arrival, from 1; 0 stands for somebody who has only just come. */
  readonly number: number
}

/** A line of those who wait to take from one counter, in the order of their numbers. */
export class Line<Member extends Numbered> {
  readonly name: string
  readonly #members: Member[] = []
  readonly #costs: number[] = []
  #total = 0

  constructor(name: string) {
    this.name = name
  }

  get first(): Member | undefined {
    return this.#members[0]
  }

  /** Adds a member, or changes what it will take. */
  put(member: Member, cost: number): void {
    const known = this.#members.indexOf(member)
    if (known >= 0) {
      this.#total += cost - this.#costs[known]!
      this.#costs[known] = cost
      return
    }
    let at = this.#members.length
    // Nearly all come last: only those who have stepped aside return to an earlier place.
    while (at > 0 && this.#members[at - 1]!.number > member.number) at--
    this.#members.splice(at, 0, member)
    this.#costs.splice(at, 0, cost)
    this.#total += cost
  }

  remove(member: Member): void {
    const at = this.#members.indexOf(member)
    if (at < 0) return
    this.#total -= this.#costs[at]!
    this.#members.splice(at, 1)
    this.#costs.splice(at, 1)
    // Sums of fractions are not exact, and an empty line has nothing ahead of anybody.
    if (this.#members.length === 0) this.#total = 0
  }

  /** Returns how much those before this number will take. */
  aheadOf(number: number): number {
    if (number === 0) return this.#total
    let sum = 0
    for (let i = 0; i < this.#members.length && this.#members[i]!.number < number; i++) sum += this.#costs[i]!
    return sum
  }
}
