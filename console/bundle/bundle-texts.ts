import type { BundleTextJson, PastBundleJson } from '../../src/admin/api/instance-types.ts'
import { ask } from '../api.ts'
import { inSlices } from '../slices.ts'
import { hasLongLines, laidOut } from './json-layout.ts'
import { differentLines, type TextLines, textLines } from './text-lines.ts'

/** A text may have 16 MB, and a comparison of two large bundles takes edge seconds. */
export const LONG_MS = 60_000
/** Two texts are needed to compare them. */
const KEPT_TEXTS = 2

/** What is shown of a text or of two. */
export interface ShownLines {
  /** Undefined if the texts differ in too many lines to list them. */
  readonly lines: TextLines | undefined
  /** Number of credentials that are shown as digests. */
  readonly hidden: number
  /** Whether JSON without line breaks is shown with some. */
  readonly isLaidOut: boolean
}

/** The texts of the bundles that are shown now. They may be large, so no others are kept. */
export class BundleTexts {
  /** By hash, because a version can be used again after a restart. */
  readonly #texts = new Map<string, BundleTextJson>()

  /** Returns the lines of one text. Undefined if it was stopped. */
  async lines(bundle: PastBundleJson, stop: AbortSignal): Promise<ShownLines | undefined> {
    const { text, hidden } = await this.#load(bundle)
    const isLaidOut = bundle.format === 'json' && hasLongLines(text)
    const read = isLaidOut ? await inSlices(laidOut(text), stop) : text
    if (read === undefined) return undefined
    const lines = await inSlices(textLines(read), stop)
    return lines && { lines, hidden, isLaidOut }
  }

  /** Returns the lines that differ. Undefined if it was stopped. */
  async difference(before: PastBundleJson, after: PastBundleJson, stop: AbortSignal): Promise<ShownLines | undefined> {
    const both = [await this.#load(before), await this.#load(after)] as const
    const isLaidOut = both.every(({ format }) => format === 'json') && both.some(({ text }) => hasLongLines(text))
    const texts: string[] = []
    for (const { text } of both) texts.push((isLaidOut ? await inSlices(laidOut(text), stop) : text) ?? '')
    if (stop.aborted) return undefined
    const lines = await inSlices(differentLines(texts[0]!, texts[1]!), stop)
    return stop.aborted ? undefined : { lines, hidden: both[0].hidden + both[1].hidden, isLaidOut }
  }

  async #load({ version, hash }: PastBundleJson): Promise<BundleTextJson> {
    const known = this.#texts.get(hash)
    if (known !== undefined) return known
    const text = await ask<BundleTextJson>('GET', `bundles/${version}`, undefined, LONG_MS)
    this.#texts.set(hash, text)
    if (this.#texts.size > KEPT_TEXTS) this.#texts.delete(this.#texts.keys().next().value!)
    return text
  }
}
