import { join } from 'node:path'
import { replaceFile } from '../bundles/bundle-file.ts'
import type { Cli } from '../service/cli.ts'
import { scratchDirectory, serving } from '../service/running.ts'
import { until } from '../until.ts'

/** `edge serve` with so many workers and this bundle, for as long as the test runs. */
export async function servingOn(
  workers: number,
  bundle: object,
  env: Readonly<Record<string, string>> = {},
): Promise<Cli & { readonly bundlePath: string }> {
  const bundlePath = join(await scratchDirectory(), 'bundle.json')
  await replaceFile(bundlePath, JSON.stringify(bundle))
  const cli = await serving({ EDGE_WORKERS: String(workers), EDGE_STORE_SIZE: '1m', EDGE_CONFIG_FILE: bundlePath, ...env })
  // The log takes its own way to us; what it said before the greeting must not be taken for an answer to what comes.
  await until(() => cli.logged('started').length > 0)
  return Object.assign(cli, { bundlePath })
}
