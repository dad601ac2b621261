import type { PoolChoice, PoolRoute } from './backend-pool.ts'

/** How a call ended. The client may have left before. */
export type Outcome = 200 | 404 | 429 | 401 | 500 | 'connect' | 'timeout' | 'left'

/** The calls of one request, as far as it has made them. */
export interface Call {
  readonly worker: number
  readonly route: PoolRoute
  readonly model: string
  readonly tried: PoolChoice[]
  startedAtMs: number
}

/** What is true of a backend, or of a model of it, that has cooled. */
interface Cooled {
  failures: number
  deadlineMs: number
  sinceMs: number
  probe: { readonly call: Call; readonly sinceMs: number } | undefined
}

/** The rules, written as plainly as they can be, for one thread that knows everything. */
export class CoolingModel {
  nowMs = 0
  readonly rows = new Map<string, { count: number; wishedUntilMs: number }>()
  readonly cooled = new Map<string, Cooled>()

  keys(choice: PoolChoice, model: string): string[] {
    return [choice.backend.name, `${choice.backend.name}/${choice.model ?? model}`].filter((key) => this.cooled.has(key))
  }

  untilMs(choice: PoolChoice, model: string): number {
    return Math.max(0, ...this.keys(choice, model).map((key) => this.cooled.get(key)!.deadlineMs))
  }

  canProbe(choice: PoolChoice, model: string): boolean {
    return this.keys(choice, model).every((key) => {
      const { probe, failures } = this.cooled.get(key)!
      return probe === undefined || this.nowMs - probe.sinceMs >= lengthMs(failures)
    })
  }

  /** What the next call of a request may be. */
  allowed({ route, tried, model }: Call): (PoolChoice | 'cooling' | undefined)[] {
    const group = route.group.filter(({ weight }) => weight > 0)
    const all = [...group, ...route.fallback]
    if (tried.length > route.retry.attempts) return [undefined]
    if (all.length === 1) return tried.length === 0 ? all : [undefined]
    const isNew = (choice: PoolChoice): boolean =>
      !tried.some(({ backend, model: sent }) => backend.name === choice.backend.name && (sent ?? model) === (choice.model ?? model))
    const takes = (choice: PoolChoice): boolean =>
      this.untilMs(choice, model) <= this.nowMs && this.canProbe(choice, model) && isNew(choice)
    const open = group.filter(takes)
    if (open.length > 0) return open
    const instead = route.fallback.find(takes)
    if (instead !== undefined || tried.length > 0) return [instead]
    const past = all.find((choice) => this.untilMs(choice, model) <= this.nowMs && !this.cooled.has(choice.backend.name))
    if (past !== undefined) return [past]
    const nearestMs = Math.min(...all.map((choice) => this.untilMs(choice, model)))
    const nearest = all.find((choice) => this.untilMs(choice, model) === nearestMs)!
    return [this.canProbe(nearest, model) ? nearest : 'cooling']
  }

  begin(call: Call, choice: PoolChoice): void {
    call.startedAtMs = this.nowMs
    call.tried.push(choice)
    if (isAlone(call.route) || !this.canProbe(choice, call.model)) return
    for (const key of this.keys(choice, call.model)) {
      const cooled = this.cooled.get(key)!
      if (cooled.probe !== undefined) cooled.failures++
      cooled.probe = { call, sinceMs: this.nowMs }
    }
  }

  end(call: Call, outcome: Outcome, retryAfterMs: number | undefined): void {
    const choice = call.tried.at(-1)!
    const { name, hasCredential } = choice.backend
    const ofModel = `${name}/${choice.model ?? call.model}`
    const wishMs = typeof outcome !== 'number' || retryAfterMs === undefined ? undefined : Math.min(retryAfterMs, 600_000)
    if (outcome === 'connect' || outcome === 'timeout' || outcome === 500) {
      const row = this.rows.get(name) ?? { count: 0, wishedUntilMs: 0 }
      row.count++
      if (wishMs !== undefined) row.wishedUntilMs = Math.max(row.wishedUntilMs, this.nowMs + wishMs)
      this.rows.set(name, row)
      if (row.count >= 3 && !isAlone(call.route)) this.cool(name, call, wishMs, row.wishedUntilMs)
    } else if (outcome !== 'left') {
      if (this.isNews(name, call)) {
        this.cooled.delete(name)
        this.rows.delete(name)
      }
      if (outcome !== 429 && outcome !== 401) {
        if (this.isNews(ofModel, call)) this.cooled.delete(ofModel)
      } else if (hasCredential && !isAlone(call.route)) this.cool(ofModel, call, wishMs, 0)
    }
    for (const cooled of this.cooled.values()) if (cooled.probe?.call === call) cooled.probe = undefined
  }

  die(worker: number): void {
    for (const cooled of this.cooled.values()) if (cooled.probe?.call.worker === worker) cooled.probe = undefined
  }

  cool(key: string, call: Call, wishMs: number | undefined, leastMs: number): void {
    const cooled = this.cooled.get(key) ?? { failures: 0, deadlineMs: 0, sinceMs: Number.NEGATIVE_INFINITY, probe: undefined }
    if (call.startedAtMs > cooled.sinceMs) {
      cooled.failures++
      cooled.sinceMs = this.nowMs
    }
    cooled.deadlineMs = Math.max(cooled.deadlineMs, leastMs, this.nowMs + (wishMs ?? lengthMs(cooled.failures)))
    this.cooled.set(key, cooled)
  }

  isNews(key: string, call: Call): boolean {
    return call.startedAtMs > (this.cooled.get(key)?.sinceMs ?? Number.NEGATIVE_INFINITY)
  }
}

function isAlone({ group, fallback }: PoolRoute): boolean {
  return group.filter(({ weight }) => weight > 0).length + fallback.length === 1
}

function lengthMs(failures: number): number {
  return Math.min(1000 * 2 ** (failures - 1), 60_000)
}
