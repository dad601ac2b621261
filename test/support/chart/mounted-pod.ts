import { mkdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { scratchDirectory } from '../service/running.ts'
import { environmentOf, type Manifest, manifests, podOf } from './helm.ts'

type Files = Readonly<Record<string, string>>

/** A pod's volumes in a folder, as a kubelet mounts them: `..data` leads to the files, and moves to the next ones in one step. */
export class MountedPod {
  /** The variables of the container, with the paths of this folder. */
  readonly env: Readonly<Record<string, string>>
  readonly #root: string
  readonly #secrets: Readonly<Record<string, Files>>
  #version = 0

  private constructor(root: string, text: string, secrets: Readonly<Record<string, Files>>) {
    this.#root = root
    this.#secrets = secrets
    const mapped = Object.entries(environmentOf(text)).map(([name, value]) => [
      name,
      value.replaceAll(/(?<=^|,)\/(?:etc|var\/lib)\/edge\b/g, `${root}$&`),
    ])
    this.env = Object.fromEntries(mapped) as Record<string, string>
  }

  /** From what the chart makes of values, and what is in the Secrets that it names. */
  static async of(text: string, secrets: Readonly<Record<string, Files>> = {}): Promise<MountedPod> {
    const pod = new MountedPod(await scratchDirectory(), text, secrets)
    await pod.update(text)
    return pod
  }

  /** After an upgrade, the volumes of a running pod have what their objects have now. */
  async update(text: string): Promise<void> {
    this.#version += 1
    const { volumes, containers } = podOf(text)
    for (const { name, mountPath } of containers[0].volumeMounts) {
      const volume = volumes.find((each: Manifest) => each.name === name)
      const directory = join(this.#root, mountPath)
      await mkdir(directory, { recursive: true })
      const files = this.#filesOf(volume, text)
      if (files !== undefined) await this.#swap(directory, files)
    }
  }

  #filesOf({ configMap, secret }: Manifest, text: string): Files | undefined {
    if (secret !== undefined) return this.#secrets[secret.secretName]
    return configMap && manifests(text, 'ConfigMap').find(({ metadata }) => metadata.name === configMap.name)?.data
  }

  async #swap(directory: string, files: Files): Promise<void> {
    const next = `..${this.#version}`
    await mkdir(join(directory, next))
    for (const [name, content] of Object.entries(files)) await writeFile(join(directory, next, name), content)
    await symlink(next, join(directory, '..data_tmp'))
    await rename(join(directory, '..data_tmp'), join(directory, '..data'))
    if (this.#version === 1) for (const name of Object.keys(files)) await symlink(join('..data', name), join(directory, name))
  }
}
