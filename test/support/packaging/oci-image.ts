import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

interface Descriptor {
  readonly digest: string
  readonly size: number
  readonly platform?: { readonly architecture: string }
}

/** How an image says that it is run. */
export interface ImageConfig {
  readonly User: string
  readonly Env: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
  readonly WorkingDir: string
  readonly StopSignal: string
  readonly Healthcheck: { readonly Test: readonly string[] }
  readonly Labels: Readonly<Record<string, string>>
}

/** One image of an OCI layout, read as any engine would: every blob must be what its digest says. */
export class OciImage {
  readonly config: ImageConfig
  /** What is pulled. */
  readonly bytes: number
  readonly #layout: string
  readonly #layers: readonly Descriptor[]

  private constructor(layout: string, config: ImageConfig, layers: readonly Descriptor[]) {
    this.#layout = layout
    this.config = config
    this.#layers = layers
    this.bytes = layers.reduce((sum, { size }) => sum + size, 0)
  }

  static async open(layout: string, architecture: string): Promise<OciImage> {
    const { manifests: named } = JSON.parse(await readFile(join(layout, 'index.json'), 'utf8')) as { manifests: [Descriptor] }
    const { manifests } = await json<{ manifests: readonly Descriptor[] }>(layout, named[0])
    const manifest = manifests.find(({ platform }) => platform?.architecture === architecture)
    if (manifest === undefined) throw new Error(`${layout} has no image for ${architecture}`)
    const { config, layers } = await json<{ config: Descriptor; layers: readonly Descriptor[] }>(layout, manifest)
    const described = await json<{ architecture: string; os: string; config: ImageConfig }>(layout, config)
    if (described.architecture !== architecture || described.os !== 'linux') throw new Error(`${layout} is for ${described.architecture}`)
    return new OciImage(layout, described.config, layers)
  }

  /** Unpacks the layers over one another. Owners are kept, which needs root. */
  async unpack(folder: string): Promise<void> {
    await mkdir(folder, { recursive: true })
    for (const { digest } of this.#layers) {
      await blob(this.#layout, digest)
      await run('tar', ['-xzpf', pathOf(this.#layout, digest), '-C', folder, '--numeric-owner', '--same-owner'])
    }
  }
}

function pathOf(layout: string, digest: string): string {
  return join(layout, 'blobs', digest.replace(':', '/'))
}

async function blob(layout: string, digest: string): Promise<Buffer> {
  const bytes = await readFile(pathOf(layout, digest))
  const actual = `sha256:${createHash('sha256').update(bytes).digest('hex')}`
  if (actual !== digest) throw new Error(`${layout}: expected ${digest}, got ${actual}`)
  return bytes
}

async function json<Value>(layout: string, { digest, size }: Descriptor): Promise<Value> {
  const bytes = await blob(layout, digest)
  if (bytes.length !== size) throw new Error(`${layout}: expected ${size} bytes of ${digest}, got ${bytes.length}`)
  return JSON.parse(bytes.toString()) as Value
}
