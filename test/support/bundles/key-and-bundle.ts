import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { TestContext } from 'vitest'
import { running, scratchDirectory } from '../service/running.ts'
import { until } from '../until.ts'
import { known } from './bundle-url.ts'
import { newSigner } from './signing.ts'

/** By a service in this process that goes by this key. */
export async function expectTaken(bundlePath: string, publicKey: string, t: TestContext): Promise<void> {
  const edge = await running({ env: { EDGE_CONFIG_FILE: bundlePath, EDGE_CONFIG_PUBLIC_KEY: publicKey } }, t)
  await until(() => edge.log.some(({ event }) => event === 'bundle_applied'))
}

export interface Signing {
  readonly directory: string
  readonly name: string
  readonly publicText: string
  readonly bundlePath: string
}

export async function keyAndBundle(t: TestContext): Promise<Signing> {
  const directory = await scratchDirectory(t)
  const [name, bundlePath] = [join(directory, 'team'), join(directory, 'bundle.json')]
  const { publicText, privatePem } = newSigner()
  await writeFile(bundlePath, known(1))
  await writeFile(`${name}.key`, privatePem)
  await writeFile(`${name}.pub`, `${publicText}\n`)
  return { directory, name, bundlePath, publicText }
}
