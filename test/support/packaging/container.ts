import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Owner, scratchDirectory, thisTest } from '../service/running.ts'
import { until } from '../until.ts'
import type { Finished } from './npm.ts'
import type { ImageConfig } from './oci-image.ts'

export interface ContainerOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Folders of this machine, by where they are in the container. They are read-only there. */
  readonly mounts?: Readonly<Record<string, string>>
  /** The same, but writable. */
  readonly volumes?: Readonly<Record<string, string>>
  /** Whether `/tmp` can be written to; it can unless this is false. */
  readonly hasTmp?: boolean
  readonly memoryBytes?: number
  /** The limit is there, but the container cannot see it: its control groups are not mounted. */
  readonly hidesLimit?: boolean
}

/** A folder to mount, which the user of a container can read. */
export async function readableFolder(owner: Owner = thisTest): Promise<string> {
  const folder = await scratchDirectory(owner)
  await chmod(folder, 0o755)
  return folder
}

/** A container of an unpacked image under runc, as strictly as Kubernetes would run it: read-only root, no capabilities. It has this machine's network. */
export class Container {
  stdout = ''
  stderr = ''
  /** The exit status of its first process, or 128 and the signal that ended it. */
  readonly exited: Promise<number>
  /** What it was given beside the variables of the image. */
  readonly env: Readonly<Record<string, string>>
  readonly #id: string
  readonly #state: string
  readonly #process: ChildProcess
  #hasEnded = false

  private constructor(id: string, state: string, bundle: string, env: Readonly<Record<string, string>>) {
    this.env = env
    this.#id = id
    this.#state = state
    this.#process = spawn('runc', ['--root', state, 'run', '--bundle', bundle, id], { stdio: ['ignore', 'pipe', 'pipe'] })
    this.#process.stdout!.on('data', (chunk: Buffer) => {
      this.stdout += chunk.toString()
    })
    this.#process.stderr!.on('data', (chunk: Buffer) => {
      this.stderr += chunk.toString()
    })
    this.exited = new Promise((resolve, reject) => {
      this.#process.on('error', reject)
      this.#process.on('close', (code) => {
        this.#hasEnded = true
        resolve(code ?? -1)
      })
    })
  }

  /** For as long as the test runs. */
  static async start(rootfs: string, image: ImageConfig, options: ContainerOptions = {}, owner: Owner = thisTest): Promise<Container> {
    const folder = await scratchDirectory(owner)
    const bundle = join(folder, 'bundle')
    await mkdir(bundle)
    await writeFile(join(bundle, 'config.json'), JSON.stringify(runtimeConfig(rootfs, image, options)))
    const container = new Container(`edge-test-${randomUUID()}`, join(folder, 'state'), bundle, options.env ?? {})
    owner.onTestFinished(() => container.#remove())
    return container
  }

  /** Waits until the service has printed where it listens. */
  async listening(): Promise<number> {
    await until(() => this.#hasEnded || /listens/.test(this.stdout))
    if (this.#hasEnded) throw new Error(`the container ended with ${await this.exited}:\n${this.stderr}`)
    return Number(/listens\s+http:\/\/\S+?:(\d+)/.exec(this.stdout)![1])
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** The most memory that it has used so far, as the kernel counts it against the limit. */
  async peakBytes(): Promise<number> {
    const groups = readFileSync(`/proc/${await this.pid()}/cgroup`, 'utf8')
    const first = /^\d+:memory:(.*)$/m.exec(groups)?.[1]
    const file = first === undefined ? `${/^0::(.*)$/m.exec(groups)![1]}/memory.peak` : `memory${first}/memory.max_usage_in_bytes`
    return Number(readFileSync(join('/sys/fs/cgroup', file), 'utf8'))
  }

  /** The process id of its first process, on this machine. */
  async pid(): Promise<number> {
    return (JSON.parse((await this.#runc('state', this.#id)).stdout) as { pid: number }).pid
  }

  /** Runs a program beside the first one, as `docker exec` does. */
  exec(...command: string[]): Promise<Finished> {
    return this.#runc('exec', this.#id, ...command)
  }

  async signal(name: 'TERM' | 'KILL'): Promise<void> {
    await this.#runc('kill', this.#id, name)
  }

  #runc(...args: string[]): Promise<Finished> {
    return new Promise((resolve, reject) => {
      execFile('runc', ['--root', this.#state, ...args], (error, stdout, stderr) => {
        if (error !== null && typeof error.code !== 'number') reject(error)
        else resolve({ status: Number(error?.code ?? 0), stdout, stderr })
      })
    })
  }

  /** Also ends processes that a test has left in it. */
  async #remove(): Promise<void> {
    await this.#runc('delete', '--force', this.#id)
    await this.exited
  }
}

const TMP_MOUNT = { destination: '/tmp', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'nodev', 'mode=1777', 'size=16m'] }
const SYSTEM_MOUNTS = [
  { destination: '/sys', type: 'sysfs', source: 'sysfs', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
  { destination: '/sys/fs/cgroup', type: 'cgroup', source: 'cgroup', options: ['nosuid', 'noexec', 'nodev', 'ro'] },
]

function runtimeConfig(rootfs: string, image: ImageConfig, options: ContainerOptions): object {
  const { env = {}, mounts = {}, volumes = {}, hasTmp = true, memoryBytes, hidesLimit = false } = options
  const [uid, gid] = image.User.split(':').map(Number)
  const bound = [...boundTo(mounts, 'ro'), ...boundTo(volumes, 'rw')]
  const limit = memoryBytes === undefined ? {} : { memory: { limit: memoryBytes, swap: memoryBytes } }
  return {
    ociVersion: '1.0.2',
    process: {
      user: { uid, gid },
      args: [...image.Entrypoint, ...image.Cmd],
      env: [...image.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
      cwd: image.WorkingDir,
      capabilities: {},
      noNewPrivileges: true,
      rlimits: [{ type: 'RLIMIT_NOFILE', hard: 4096, soft: 4096 }],
    },
    root: { path: rootfs, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'strictatime', 'mode=755', 'size=65536k'] },
      ...(hidesLimit ? [] : SYSTEM_MOUNTS),
      ...(hasTmp ? [TMP_MOUNT] : []),
      ...bound,
    ],
    linux: {
      namespaces: ['pid', 'ipc', 'uts', 'mount'].map((type) => ({ type })),
      resources: { devices: [{ allow: false, access: 'rwm' }], ...limit },
      maskedPaths: ['/proc/kcore', '/proc/keys', '/proc/timer_list'],
      readonlyPaths: ['/proc/sys', '/proc/sysrq-trigger'],
    },
  }
}

function boundTo(folders: Readonly<Record<string, string>>, access: 'ro' | 'rw'): object[] {
  return Object.entries(folders).map(([destination, source]) => ({ destination, source, type: 'bind', options: ['bind', access] }))
}
