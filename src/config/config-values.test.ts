import { describe, expect, test } from 'vitest'
import { availableCores } from './config-values.ts'

describe('the cores that can be used', () => {
  test.each<[string, number, Record<string, string>]>([
    ['all that are allowed, where there are no groups', 8, {}],
    ['all that are allowed, where the group says max', 8, { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': 'max 100000\n' }],
    [
      'the quota of a container that sees itself at the top',
      2,
      { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '200000 100000\n' },
    ],
    [
      'the quota of a container that sees its path as the host does',
      3,
      { '/proc/self/cgroup': '0::/docker/abc\n', '/sys/fs/cgroup/cpu.max': '300000 100000\n' },
    ],
    [
      'the smallest quota among the group and those above it',
      2,
      {
        '/proc/self/cgroup': '0::/slice/pod/box\n',
        '/sys/fs/cgroup/slice/cpu.max': '600000 100000\n',
        '/sys/fs/cgroup/slice/pod/cpu.max': '100000 50000\n',
        '/sys/fs/cgroup/slice/pod/box/cpu.max': '400000 100000\n',
      },
    ],
    ['the quota rounded down', 2, { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '290000 100000\n' }],
    ['one at least', 1, { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '25000 100000\n' }],
    ['no more than allowed, whatever the quota', 8, { '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/cpu.max': '6400000 100000\n' }],
    [
      'the top, where the group is outside of what can be seen',
      4,
      { '/proc/self/cgroup': '0::/../../other\n', '/sys/fs/cgroup/cpu.max': '400000 100000\n' },
    ],
    [
      'the quota of the first version',
      3,
      {
        '/proc/self/cgroup': '4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/\n',
        '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us': '350000\n',
        '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us': '100000\n',
      },
    ],
    [
      'the quota of the first version, above a group without one, beside an empty tree of the second',
      5,
      {
        '/proc/self/cgroup': '1:cpu:/docker/abc\n0::/\n',
        '/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us': '500000\n',
        '/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us': '100000\n',
        '/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us': '-1\n',
        '/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us': '100000\n',
      },
    ],
    [
      'not those of cpusets or accounting alone',
      8,
      {
        '/proc/self/cgroup': '2:cpuacct:/a\n1:cpuset:/a\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us': '100000\n',
        '/sys/fs/cgroup/cpu/a/cpu.cfs_period_us': '100000\n',
      },
    ],
    [
      'all that are allowed, where the files make no sense',
      8,
      { '/proc/self/cgroup': 'zero\n0::/\n', '/sys/fs/cgroup/cpu.max': 'a lot\n' },
    ],
  ])('are %s', (_, expected, files) => {
    expect(availableCores(readingFrom(files), 8)).toBe(expected)
  })

  test('are at least one here', () => {
    expect(availableCores()).toBeGreaterThanOrEqual(1)
  })
})

function readingFrom(files: Record<string, string>): (path: string) => string {
  return (path) => {
    const text = files[path]
    if (text === undefined) throw new Error(`ENOENT: ${path}`)
    return text
  }
}
