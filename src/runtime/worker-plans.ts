import { policiesOf, pricesOf } from '../bundle/shared-bundle.ts'
import type { IpFile } from '../ip-data/ip-databases.ts'
import type { BundleInfo } from '../policy/bundle-info.ts'
import { PlanBuilder } from '../policy/compile.ts'
import type { Plan } from '../policy/plan.ts'
import { inSlices } from '../slices.ts'
import type { FromWorker, ToWorker } from './threads/messages.ts'
import type { WorkerEngine } from './worker-engine.ts'

type PrepareMessage = ToWorker & { readonly type: 'prepare' }

/** Makes bundles ready in a worker's engine: each is compiled beside the active one, and reported to the supervisor, which turns to it. */
export class WorkerPlans {
  readonly #decider: WorkerEngine
  readonly #send: (message: FromWorker) => void
  readonly #bundles = new Map<number, BundleInfo>()
  readonly #listeners: (() => void)[] = []
  /** One bundle after the other. */
  #preparing: Promise<void> = Promise.resolve()

  constructor(decider: WorkerEngine, send: (message: FromWorker) => void) {
    this.#decider = decider
    this.#send = send
  }

  /** The bundle that is active. */
  get bundle(): BundleInfo | undefined {
    return this.#bundles.get(this.#decider.plans.generation)
  }

  /** Resolves when the bundles that have come so far are ready. */
  get prepared(): Promise<void> {
    return this.#preparing
  }

  /** Calls back each time that a plan has become active. */
  onActive(listener: () => void): void {
    this.#listeners.push(listener)
  }

  useIpFile(file: IpFile): void {
    this.#decider.ipDatabases.use(file)
  }

  prepare(message: PrepareMessage): Promise<void> {
    this.#preparing = this.#preparing.then(() => this.#prepare(message))
    return this.#preparing
  }

  noteActive(): void {
    // It lets go of the plan before it: where no request comes, nothing else would.
    void this.#decider.engine.plan
    for (const listener of this.#listeners) listener()
  }

  async #prepare(message: PrepareMessage): Promise<void> {
    const { generation, info } = message
    const { ipDatabases, plans } = this.#decider
    let problem: string | undefined
    try {
      await ipDatabases.prepareFor(await inSlices(this.#stepsOf(message)))
      for (const older of this.#bundles.keys()) if (older < plans.generation) this.#bundles.delete(older)
      this.#bundles.set(generation, info)
    } catch (error) {
      problem = `it cannot be compiled: ${(error as Error).message}`
    }
    this.#send({ type: 'prepared', generation, problem })
  }

  *#stepsOf({ generation, bundle, sincesMs }: PrepareMessage): Generator<void, Plan> {
    const builder = new PlanBuilder(bundle.version, pricesOf(bundle))
    for (const policy of policiesOf(bundle)) {
      builder.add(policy)
      yield
    }
    const plan = builder.build()
    yield* this.#decider.engine.prepare(generation, plan, sincesMs)
    return plan
  }
}
