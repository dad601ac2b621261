import { execFileSync } from 'node:child_process'
import { accessSync, chmodSync, constants, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

const { PATH } = process.env

/**
 * `arrange` returns what a condition needs: a `wrapper` (a command that runs the one after it), `env`, `user`, busy `loops`, or `copies` that run at
 * once; or `skip`, the reason why it cannot be run. `fault` checks the facts that a process sees there, and returns what is not as promised.
 */
export const CONDITIONS = [
  { name: 'quiet', what: 'with no extra load', arrange: () => ({}) },
  { name: 'busy4', what: 'beside four busy loops', arrange: () => ({ loops: 4 }) },
  { name: 'one-core', what: 'on one core, beside two busy loops on the same core', arrange: oneCore },
  { name: 'side-by-side', what: 'two runs at once', arrange: () => ({ copies: 2 }) },
  { name: 'other-user', what: 'as nobody, with a home of its own', arrange: otherUser },
  { name: 'no-network', what: 'with only a loopback interface', arrange: noNetwork },
  { name: 'other-tmpdir', what: 'with TMPDIR on another file system', arrange: otherTemporaryFolder },
  { name: 'bare', what: 'with nothing in PATH but Node, git and a minimal Debian', arrange: bare },
  { name: 'node22', what: 'on the newest Node 22 of the npm registry; nodeN for another', arrange: (place) => otherNode(22, place) },
  { name: 'node24', what: 'on the newest Node 24', arrange: (place) => otherNode(24, place) },
  { name: 'busy2', what: 'beside two busy loops', isExtra: true, arrange: () => ({ loops: 2 }) },
]

export function conditionNamed(name) {
  const major = /^node(\d+)$/.exec(name)?.[1]
  return CONDITIONS.find((one) => one.name === name) ?? (major && { name, arrange: (place) => otherNode(Number(major), place) })
}

function oneCore() {
  if (!has('taskset')) return { skip: 'taskset is missing' }
  const core = /^Cpus_allowed_list:\s*(\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1]
  const fault = ({ cores }) => cores !== 1 && `it has ${cores} cores`
  return { loops: 2, wrapper: ['taskset', '-c', core], fault }
}

function otherUser({ work }) {
  if (process.getuid() !== 0) return { skip: `this is user ${process.getuid()}, so every run here is one of another user than root` }
  const user = { uid: Number(output('id', '-u', 'nobody')), gid: Number(output('id', '-g', 'nobody')) }
  const home = mkdtempSync(join(work, 'home-'))
  const env = { HOME: home, TMPDIR: join(home, 'tmp'), USER: 'nobody', LOGNAME: 'nobody', XDG_CACHE_HOME: undefined, CI: undefined }
  mkdirSync(env.TMPDIR)
  execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, home])
  return { user, env, fault: ({ uid }) => uid !== user.uid && `it runs as user ${uid}` }
}

function noNetwork() {
  if (process.getuid() !== 0) return { skip: 'only root may take the network away' }
  if (!has('unshare')) return { skip: 'unshare is missing' }
  if (!has('ip') && !has('ifconfig')) return { skip: 'neither ip nor ifconfig is there to start the loopback interface' }
  const startLoopback = has('ip') ? 'ip link set lo up' : 'ifconfig lo up'
  const fault = ({ interfaces }) => String(interfaces) !== 'lo' && `it has the interfaces ${interfaces}`
  return { wrapper: ['unshare', '--net', 'sh', '-c', `${startLoopback} && exec "$@"`, 'sh'], fault }
}

/** Uses a path as long as a user's TMPDIR on macOS, because paths of sockets below it may have at most 107 bytes. */
function otherTemporaryFolder({ work }) {
  const { dev } = statSync(work)
  const base = ['/dev/shm', `/run/user/${process.getuid()}`, '/var/tmp'].find(
    (folder) => isWritable(folder) && statSync(folder).dev !== dev,
  )
  if (base === undefined) return { skip: 'no writable folder on another file system was found' }
  const folder = mkdtempSync(join(base, 'edge-temporary-files-of-tests-'.padEnd(42 - base.length, '-')))
  const fault = (facts) => (facts.tmpdir !== folder || facts.tmpdirDevice === dev) && `its TMPDIR is ${facts.tmpdir}`
  return { env: { TMPDIR: folder }, fault, end: () => rmSync(folder, { recursive: true, force: true }) }
}

/** Programs of Debian's essential packages, git, and Node. Other programs that tests use are optional parts. */
const ESSENTIAL =
  `node npm npx git sh bash dash [ basename cat chgrp chmod chown cp cut date dd df dirname du echo env expr false find grep head
  hostname id install kill link ln ls mkdir mkfifo mknod mktemp more mount mv nice nohup nproc od paste pathchk pr printf prlimit pwd readlink
  realpath rm rmdir script sed seq setpriv sha256sum sleep sort split stat stty sync tail tar taskset tee test timeout touch tr true truncate
  tty umount uname uniq unlink unshare wc which whoami xargs awk mawk gzip gunzip zcat diff cmp egrep fgrep perl tput yes`.split(/\s+/)

function bare({ work }) {
  const folder = mkdtempSync(join(work, 'bin-'))
  for (const name of ESSENTIAL) {
    const path = which(name)
    if (path !== undefined) symlinkSync(path, join(folder, name))
  }
  const env = { PATH: folder, XDG_CACHE_HOME: mkdtempSync(join(work, 'cache-')), CI: undefined }
  return { env, fault: ({ redis }) => redis !== undefined && `it finds ${redis}` }
}

/** Takes Node's binary from the npm package `node-<system>-<processor>`. It is installed beside the other test parts. */
function otherNode(major) {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'edge-test-parts', `node-${major}`)
  const carrier = `node-${process.platform}-${process.arch}`
  const bin = join(folder, 'node_modules', carrier, 'bin')
  try {
    mkdirSync(folder, { recursive: true })
    output('npm', 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', `${carrier}@${major}`)
  } catch (error) {
    if (!existsSync(join(bin, 'node')))
      return { skip: `${carrier}@${major} could not be installed: ${String(error.stderr).trim().split('\n')[0]}` }
  }
  chmodSync(join(bin, 'node'), 0o755)
  const fault = ({ node }) => !node.startsWith(`v${major}.`) && `it runs on ${node}`
  return { env: { PATH: `${bin}${delimiter}${PATH}` }, fault }
}

function has(program) {
  return which(program) !== undefined
}

function which(program) {
  return PATH.split(delimiter)
    .map((folder) => join(folder, program))
    .find((path) => existsSync(path))
}

function isWritable(folder) {
  try {
    accessSync(folder, constants.W_OK)
    return true
  } catch {
    return false
  }
}

function output(command, ...args) {
  return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
}
