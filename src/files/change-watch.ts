import { type FSWatcher, watch } from 'node:fs'
import { readlink, statfs } from 'node:fs/promises'
import { join, parse, resolve, sep } from 'node:path'

/**
 * Disks whose every change the kernel reports: they belong to this machine alone. By statfs(2): ext2 to ext4, XFS, Btrfs, F2FS, ZFS, tmpfs, ramfs and
 * overlayfs. All others may be changed by somebody whom this kernel does not see.
 */
const LOCAL_DISKS = new Set([0xef53, 0x58465342, 0x9123683e, 0xf2f52010, 0x2fc12fc1, 0x01021994, 0x858458f6, 0x794c7630])
/** As many links as Linux follows. */
const MAX_LINKS = 40

/**
 * Tells when a path may lead to other content: its file is written to or replaced, or so is one of the links on the way to it. It is only a hint, and
 * may come for nothing, because directories are watched whole. What it cannot see is a directory that is moved, or mounted over, further up.
 */
export class ChangeWatch {
  readonly #path: string
  readonly #onChange: () => void
  #watchers: FSWatcher[] = []
  #isClosed = false

  constructor(path: string, onChange: () => void) {
    this.#path = resolve(path)
    this.#onChange = onChange
  }

  /**
   * Watches what the path leads through now. Resolves to whether all of that can be watched, so that the kernel will tell of changes; if not, nothing is
   * watched.
   */
  async start(): Promise<boolean> {
    this.stop()
    if (process.platform !== 'linux') return false
    try {
      const places = await placesOn(this.#path)
      for (const place of places) if (!LOCAL_DISKS.has((await statfs(place)).type)) return false
      if (this.#isClosed) return false
      for (const place of places) this.#watch(place)
      return true
    } catch {
      // A path that leads nowhere, or a system without watches to spare.
      this.stop()
      return false
    }
  }

  stop(): void {
    for (const watcher of this.#watchers) watcher.close()
    this.#watchers = []
  }

  close(): void {
    this.#isClosed = true
    this.stop()
  }

  #watch(place: string): void {
    const watcher = watch(place, { persistent: false }, this.#onChange)
    watcher.on('error', this.#onChange)
    this.#watchers.push(watcher)
  }
}

/** Returns the file itself, which may be written to through another name, and the directory of each link that leads to it and of its own name. */
async function placesOn(path: string): Promise<ReadonlySet<string>> {
  const places = new Set<string>()
  const { root } = parse(path)
  let [known, rest, links] = [root, path.slice(root.length).split(sep), 0]
  while (rest.length > 0) {
    const [name, ...others] = rest
    const here = join(known, name!)
    const target = await readlink(here).catch(notALink)
    if (target === undefined) {
      if (others.length === 0) places.add(known).add(here)
      known = here
      rest = others
      continue
    }
    if (++links > MAX_LINKS) throw new Error('too many links')
    places.add(known)
    const whole = resolve(known, target)
    known = root
    rest = [...whole.slice(root.length).split(sep), ...others]
  }
  return places
}

function notALink(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'EINVAL') throw error
}
