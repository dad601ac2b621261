import { join } from 'node:path'
import { replaceFile } from '../bundles/bundle-file.ts'
import type { Cli } from '../service/cli.ts'
import type { Fields } from '../service/http.ts'
import { Load } from '../service/load.ts'
import { metricsOf } from '../service/metrics.ts'
import { type Environment, type Owner, scratchDirectory, serving, thisTest } from '../service/running.ts'
import { until } from '../until.ts'

export type Workers = Cli & { readonly bundlePath: string }

/** `edge serve` with so many workers and this bundle, for as long as the test runs. */
export async function servingOn(workers: number, bundle: object, env: Environment = {}, owner: Owner = thisTest): Promise<Workers> {
  const bundlePath = join(await scratchDirectory(owner), 'bundle.json')
  await replaceFile(bundlePath, JSON.stringify(bundle))
  const settings = { EDGE_WORKERS: String(workers), EDGE_STORE_SIZE: '1m', EDGE_CONFIG_FILE: bundlePath, ...env }
  const cli = await serving(settings, [], owner)
  // The log takes its own way to us; what it said before the greeting must not be taken for an answer to what comes.
  await until(() => cli.logged('started').length > 0)
  return Object.assign(cli, { bundlePath })
}

/** Callers on all workers, for as long as the test runs. The system wakes whom it likes: there are more of them until each worker has some. */
export async function loadOnAll(port: number, fields: Fields, lanes: number, metricsPort = port): Promise<Load> {
  const load = new Load(port, fields, lanes)
  thisTest.onTestFinished(() => load.stop())
  for (;;) {
    const enough = load.total + load.laneCount
    await until(() => load.total >= enough)
    // One is the question's own, and those of questions before may not be gone yet: so many must be callers'.
    if (Math.min(...(await metricsOf(metricsPort)).connections) > 3) return load
    load.grow(lanes)
  }
}
