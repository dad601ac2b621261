import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describeWith } from '../describe-with.ts'
import { type Owner, scratchDirectory } from '../service/running.ts'
import { testPart } from '../test-part.ts'
import { until } from '../until.ts'
import { type Finished, run, succeed } from './npm.ts'

const BOOT = fileURLToPath(new URL('boot-debian.sh', import.meta.url))
const ROOT_FILES = testPart('systemd-root')
/** Where the second version of control groups is, alone or beside the first. */
const GROUPS = existsSync('/sys/fs/cgroup/unified') ? '/sys/fs/cgroup/unified' : '/sys/fs/cgroup'

/** Tests that change the root file system of a Debian of their own. */
export function describeWithDebian(name: string, body: () => void): void {
  describeWith(missingForDebian(), name, body)
}

function missingForDebian(): string | undefined {
  if (process.getuid?.() !== 0) return 'it needs root'
  if (!existsSync(ROOT_FILES)) return 'there is no root file system of Debian; sh scripts/test-parts/systemd-root.sh makes it'
  const canUnshare = spawnSync('unshare', ['--mount', '--pid', '--net', '--cgroup', '--fork', 'mount', '--make-rprivate', '/']).status === 0
  return canUnshare ? undefined : 'this machine does not allow namespaces'
}

/** Unpacks a fresh Debian with systemd, which nothing runs yet. */
export async function debianRoot(owner: Owner): Promise<string> {
  const root = await scratchDirectory(owner)
  await succeed(root, 'chmod', '755', root)
  // The devices are those of the machine.
  await succeed(root, 'tar', '-xf', ROOT_FILES, '-C', root, '--exclude=./dev/*')
  return root
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A root file system under its own systemd. */
export class DebianMachine {
  readonly root: string
  /** The process on this machine that is the first one there. */
  readonly #pid: number

  private constructor(root: string, pid: number) {
    this.root = root
    this.#pid = pid
  }

  static async boot(root: string, owner: Owner): Promise<DebianMachine> {
    const group = mkdtempSync(join(GROUPS, 'edge-test-'))
    const booted = spawn('sh', [BOOT, root, group], { stdio: ['ignore', 'ignore', 'inherit'] })
    const ended = new Promise((resolve) => booted.on('close', resolve))
    owner.onTestFinished(async () => {
      booted.kill('SIGKILL')
      await ended
      // It is empty when the last process is gone, and so are the groups in it.
      await until(async () => (await run('/', 'find', group, '-depth', '-type', 'd', '-exec', 'rmdir', '{}', '+')).status === 0)
    })
    let machine: DebianMachine | undefined
    await until(async () => {
      if (booted.exitCode !== null) throw new Error(`the machine did not boot: ${booted.exitCode}`)
      const [child] = readFileSync(`/proc/${booted.pid}/task/${booted.pid}/children`, 'utf8').split(' ')
      if (child === undefined || child === '') return false
      machine = new DebianMachine(root, Number(child))
      // Earlier, `systemctl` cannot reach it.
      return (await machine.run('systemctl', 'is-system-running')).stdout === 'running\n'
    })
    return machine!
  }

  run(program: string, ...args: string[]): Promise<Finished> {
    return run('/', 'nsenter', '--target', String(this.#pid), '--all', 'env', '-i', 'PATH=/usr/sbin:/usr/bin', program, ...args)
  }

  /** Like `run`, for what has to succeed. */
  async succeed(program: string, ...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await this.run(program, ...args)
    if (status !== 0) throw new Error(`${program} ${args.join(' ')} exited with ${status}:\n${stdout}${stderr}\n${await this.#journal()}`)
    return stdout
  }

  /** A property of a unit, such as `MainPID`. */
  async property(unit: string, name: string): Promise<string> {
    return (await this.succeed('systemctl', 'show', unit, '--property', name, '--value')).trimEnd()
  }

  /** Sends a request from the machine to itself: nobody else reaches its ports. */
  async request(port: number, method: string, path: string, headers: Readonly<Record<string, string>> = {}): Promise<Reply> {
    const script = `fetch('http://127.0.0.1:${port}${path}', ${JSON.stringify({ method, headers })}).then(async (reply) =>
      console.log(JSON.stringify({ status: reply.status, headers: Object.fromEntries(reply.headers), body: await reply.text() })))`
    return JSON.parse(await this.succeed('/usr/lib/edge/node', '--eval', script)) as Reply
  }

  async #journal(): Promise<string> {
    return (await this.run('journalctl', '--no-pager', '--unit', 'edge', '--lines', '40')).stdout
  }
}

/** Builds the package for this machine, without compression, which takes a minute. */
export async function debianPackage(checkout: string, directory: string): Promise<string> {
  const architecture = (await succeed(checkout, 'dpkg', '--print-architecture')).trim()
  const settings = ['EDGE_DEB_COMPRESSION=none', 'SOURCE_DATE_EPOCH=1700000000']
  // From its own directory, so that what is packed meanwhile is no part of the checkout, which other tests copy.
  await succeed(directory, 'env', ...settings, 'sh', join(checkout, 'release/deb.sh'), directory, architecture)
  const [file] = (await succeed(directory, 'sh', '-c', 'ls *.deb')).split('\n')
  return join(directory, file!)
}

/** The same package with a higher version, and with another bundle to begin with. */
export async function laterPackage(file: string, version: string, bundle: string, owner: Owner): Promise<string> {
  const directory = await scratchDirectory(owner)
  const unpacked = join(directory, 'unpacked')
  await succeed(directory, 'dpkg-deb', '--raw-extract', file, unpacked)
  await succeed(unpacked, 'sed', '-i', `s/^Version: .*/Version: ${version}/`, 'DEBIAN/control')
  await writeFile(join(unpacked, 'etc/edge/bundle.yaml'), bundle)
  const later = join(directory, 'later.deb')
  await succeed(directory, 'dpkg-deb', '--root-owner-group', '-Znone', '--build', unpacked, later)
  await rm(unpacked, { recursive: true })
  return later
}
