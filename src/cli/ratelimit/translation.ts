import { parseDescriptorKey } from '../../policy/descriptor-key.ts'
import { formatPath, type Path, type Problem, show } from '../../text/problem.ts'
import type { Configuration, ConfiguredLimit, Entry } from './configuration.ts'
import { byKey, exemptionOf, hasWildcardInside, type Level, type NamelessRule, ruleOf } from './rules.ts'

/** The result of converting a configuration of envoyproxy/ratelimit. */
export interface Translation {
  readonly policies: readonly object[]
  /** Settings that a bundle cannot express. */
  readonly gaps: readonly Problem[]
  /** Settings that make no difference to callers. */
  readonly notes: readonly Problem[]
}

/** As many prefixes as a bundle allows for one key of a rule. */
const MAX_PREFIXES = 100
/** A bundle may have more values, but exceptions are repeated in many rules, and this bounds the work. */
const MAX_VALUES = 2_000_000

/** Returns undefined if the result has too many values. `ids` holds the policy ids of the whole bundle. */
export function translate(configuration: Configuration, ids: NameList): Translation | undefined {
  const translator = new Translator(configuration.domain, ids)
  translator.addEntries(configuration.descriptors, [])
  return translator.isTooLarge ? undefined : translator
}

type Mode = 'enforce' | 'shadow'

interface Policy {
  readonly rules: object[]
  readonly names: NameList
}

class Translator implements Translation {
  readonly policies: object[] = []
  readonly gaps: Problem[] = []
  readonly notes: Problem[] = []
  readonly #domain: string
  readonly #ids: NameList
  /** The first limit for each set of keys, to find those with the same keys in another order. */
  readonly #orders = new Map<string, { readonly keys: readonly string[]; readonly path: Path }>()
  #valueCount = 0

  constructor(domain: string, ids: NameList) {
    this.#domain = domain
    this.#ids = ids
  }

  get isTooLarge(): boolean {
    return this.#valueCount > MAX_VALUES
  }

  addEntries(entries: readonly Entry[], above: readonly Level[]): void {
    const groups = byKey(entries)
    const shared = new Map<string, Policy>()
    for (const entry of entries) {
      const level = this.#levelOf(entry, groups, above)
      if (level === undefined) continue
      const levels = [...above, level]
      if (entry.limit !== undefined && this.#isSayable(entry, levels)) {
        this.#report(entry, entry.limit)
        this.#addLimit(entry, entry.limit, levels, shared)
      }
      if (this.isTooLarge) return
      this.addEntries(entry.entries, levels)
    }
  }

  /** Returns undefined, and reports why, if the entry and everything below it cannot be converted. */
  #levelOf(entry: Entry, groups: ReturnType<typeof byKey>, above: readonly Level[]): Level | undefined {
    const siblings = groups.get(entry.key)!
    const key = keyFor(entry.key, above)
    if (parseDescriptorKey(key) === undefined) {
      this.#gap(entry, [], `the key ${show(entry.key)} cannot be written in a bundle; this descriptor is left out`)
      return undefined
    }
    if (hasWildcardInside(entry)) {
      this.#gap(
        entry,
        ['value'],
        `${show(entry.value)} has a * before its end, and in a bundle only a * at the end stands for any text; this descriptor is left out`,
      )
      return undefined
    }
    if (siblings.prefixCount > MAX_PREFIXES) {
      this.#gap(entry, [], `its key has more than ${MAX_PREFIXES} values with * here; this descriptor is left out`)
      return undefined
    }
    const except = siblings.exceptionsOf(entry)
    if (except === undefined) this.#note(entry, 'it never applies: descriptors before it cover all of its values')
    return except && { entry, key, except, siblings }
  }

  /** A rule covers its keys in any order, so limits for two orders of the same keys would both apply to each. */
  #isSayable(entry: Entry, levels: readonly Level[]): boolean {
    const keys = levels.map(({ key }) => key)
    const id = JSON.stringify([...keys].sort())
    const first = this.#orders.get(id)
    if (first === undefined) this.#orders.set(id, { keys, path: entry.path })
    if (first === undefined || first.keys.every((key, i) => key === keys[i])) return true
    const place = formatPath(first.path)
    this.#gap(entry, [], `${place} has the same keys in another order, and edge ignores the order of keys; this limit is left out`)
    return false
  }

  #report(entry: Entry, { isReplacing, unit }: ConfiguredLimit): void {
    if (isReplacing)
      this.#gap(entry, ['rate_limit', 'replaces'], 'there is no equivalent; this limit and those that it replaces both apply')
    if (entry.isQuota && unit !== undefined) {
      this.#gap(
        entry,
        ['quota_mode'],
        'there is no equivalent; the limit is in shadow mode: it rejects nobody, and no metadata is returned',
      )
    }
    if (entry.hasMetadata) this.#gap(entry, ['metadata'], 'there is no equivalent; the limit applies, and no metadata is returned')
    if (entry.hasOwnMetric) this.#note(entry, 'detailed_metric and value_to_metric have no effect: metrics have no descriptor values')
  }

  /** If only the last entry has exceptions and it is for arbitrary values, `else` expresses them. Otherwise the limit needs a policy of its own. */
  #addLimit(entry: Entry, limit: ConfiguredLimit, levels: readonly Level[], shared: Map<string, Policy>): void {
    const last = levels.at(-1)!
    const excepting = levels.filter(({ except }) => except.length > 0)
    const mode = modeOf(entry)
    if (excepting.length > 0 && (excepting.length > 1 || excepting[0] !== last || entry.value !== undefined)) {
      const policy = this.#addPolicy(levels, levels, mode)
      for (const level of excepting) this.#addRule(policy, 'exempt', exemptionOf(levels, level, level.except))
      this.#addRule(policy, nameOf(entry), ruleOf(limit, levels, 'else'))
      return
    }
    const id = JSON.stringify([mode, entry.key])
    const policy = shared.get(id) ?? this.#addPolicy(levels.slice(0, -1), levels, mode)
    shared.set(id, policy)
    if (excepting.length > 0) {
      const elsewhere = last.siblings.valued.filter((other) => !isBeside(other, last, mode)).map(({ value }) => value!)
      if (elsewhere.length > 0) this.#addRule(policy, 'exempt', exemptionOf(levels, last, elsewhere))
      this.#addRule(policy, nameOf(entry), ruleOf(limit, levels, 'else'))
    } else {
      this.#addRule(policy, nameOf(entry), ruleOf(limit, levels, entry.value === undefined ? undefined : { [last.key]: entry.value }))
    }
  }

  /** Adds a policy for descriptors with the values of the levels in `selecting`. */
  #addPolicy(selecting: readonly Level[], levels: readonly Level[], mode: Mode): Policy {
    const valued = selecting.filter(({ entry }) => entry.value !== undefined)
    const descriptors = Object.fromEntries(valued.map(({ key, entry }) => [key, entry.value]))
    const selector = { domain: this.#domain, ...(valued.length > 0 && { descriptors }) }
    const steps = levels.map((level) => (selecting.includes(level) ? stepOf(level.entry) : level.entry.key))
    const id = this.#ids.add([this.#domain, ...steps].join('/') + (mode === 'shadow' ? ' (shadow)' : ''))
    const policy = { rules: [], names: new NameList() }
    this.policies.push({ id, spec: { ...(mode === 'shadow' && { mode }), selector, rules: policy.rules } })
    return policy
  }

  #addRule({ rules, names }: Policy, name: string, rule: NamelessRule): void {
    rules.push({ name: names.add(name), ...rule })
    const { match } = rule
    this.#valueCount += 10
    if (typeof match === 'object') for (const given of Object.values(match!)) this.#valueCount += Array.isArray(given) ? given.length : 1
  }

  #gap(entry: Entry, below: Path, message: string): void {
    this.gaps.push({ path: formatPath([...entry.path, ...below]), message })
  }

  #note(entry: Entry, message: string): void {
    this.notes.push({ path: formatPath(entry.path), message })
  }
}

/** In a bundle, the second occurrence of a key in a descriptor is a key of its own. */
function keyFor(key: string, above: readonly Level[]): string {
  const count = above.filter(({ entry }) => entry.key === key).length + 1
  return `descriptor:${key}${count === 1 ? '' : `#${count}`}`
}

/** Whether the entry has a rule in the policy that it would share with `level`. */
function isBeside(entry: Entry, { siblings }: Level, mode: Mode): boolean {
  return entry.limit !== undefined && modeOf(entry) === mode && siblings.exceptionsOf(entry)?.length === 0
}

function modeOf({ isShadow, isQuota, limit }: Entry): Mode {
  return (isShadow || isQuota) && limit?.unit !== undefined ? 'shadow' : 'enforce'
}

function nameOf(entry: Entry): string {
  return entry.limit?.name ?? stepOf(entry)
}

function stepOf({ key, value }: Entry): string {
  return value === undefined ? key : `${key}=${value}`
}

const MAX_CHARACTERS = 240

/** Makes names unique and valid in a bundle: printable ASCII, and not too long. */
export class NameList {
  readonly #used = new Set<string>()
  readonly #repeats = new Map<string, number>()

  /** Returns the name, with a number if it is taken. */
  add(name: string): string {
    const base = name.slice(0, MAX_CHARACTERS).replace(/[^\x20-\x7e]/g, '?')
    let text = base
    for (let count = this.#repeats.get(base) ?? 2; this.#used.has(text); count++) {
      text = `${base} ${count}`
      this.#repeats.set(base, count + 1)
    }
    this.#used.add(text)
    return text
  }
}
