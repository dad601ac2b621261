import { BAD_JSON } from '../support/bundles/bad-json-bundles.ts'
import { replaceFile } from '../support/bundles/bundle-file.ts'
import { bundle, type PolicyText, policy } from '../support/bundles/bundles.ts'
import type { EdgeProcess } from './edge-process.ts'
import { eventually } from './eventually.ts'
import type { Round } from './scenario.ts'

const MAX_PAUSE_MS = 1500
const MAX_EXTRA_POLICIES = 30

/** The bundle file that all instances look at, and new versions of it: good ones, which keep all counters, and bad ones. */
export class Reloads {
  readonly path: string
  applied = 0
  refused = 0
  readonly #policiesOf: (version: number) => readonly PolicyText[]
  #edges: readonly EdgeProcess[] = []
  #version = 1

  private constructor(path: string, policiesOf: (version: number) => readonly PolicyText[]) {
    this.path = path
    this.#policiesOf = policiesOf
  }

  /** `policiesOf` a version may differ in all that does not change what a caller has left. */
  static async at(path: string, policiesOf: (version: number) => readonly PolicyText[]): Promise<Reloads> {
    const reloads = new Reloads(path, policiesOf)
    await replaceFile(path, reloads.#text(0))
    return reloads
  }

  /** Who must take up what is published. */
  watchedBy(...edges: readonly EdgeProcess[]): void {
    this.#edges = edges
  }

  /** Until it is over; the file holds a good bundle whenever this is done. */
  async run({ random, rest }: Round, isOver: () => boolean): Promise<void> {
    while (!isOver()) {
      await rest(random.next() * MAX_PAUSE_MS)
      if (isOver()) return
      if (random.below(4) === 0) await this.#publishBad(random.oneOf(BAD_JSON).content)
      await this.publish(random.below(MAX_EXTRA_POLICIES))
    }
  }

  /** A new version, with so many policies more. */
  async publish(extraPolicies = 0): Promise<void> {
    this.#version++
    await replaceFile(this.path, this.#text(extraPolicies))
    const start = `edge_bundle_info{version="${this.#version}"`
    await this.#all(`version ${this.#version} is active`, async (edge) => (await edge.metrics()).sum(start) === 1)
    this.applied++
  }

  /** Something that must be refused, followed by something good. */
  async #publishBad(content: string | Buffer): Promise<void> {
    const before = new Map<EdgeProcess, number>()
    for (const edge of this.#edges) before.set(edge, await refusals(edge))
    await replaceFile(this.path, content)
    await this.#all('a bad bundle is refused', async (edge) => (await refusals(edge)) > before.get(edge)!)
    this.refused++
  }

  async #all(what: string, isTrue: (edge: EdgeProcess) => Promise<boolean>): Promise<void> {
    // A worker that dies takes the question with it.
    await Promise.all(this.#edges.map((edge) => eventually(what, () => isTrue(edge).catch(() => false))))
  }

  #text(extraPolicies: number): string {
    const extra = Array.from({ length: extraPolicies }, (_, i) =>
      policy(`extra ${i}`, { selector: { pathPrefix: `/extra/${i}` }, rules: [] }),
    )
    const policies = [...this.#policiesOf(this.#version), ...extra]
    // Another order every other time
    return JSON.stringify(bundle(this.#version, ...(this.#version % 2 === 0 ? policies : policies.reverse())))
  }
}

async function refusals(edge: EdgeProcess): Promise<number> {
  return (await edge.metrics()).value('edge_bundle_reloads_total{result="refused"}')
}
