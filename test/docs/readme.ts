import { codeBlocks } from './markdown.ts'

/** The README's block for 3 a.m.: the settings that it exports, the file that `edge` stands for, and its commands. */
export function night(readme: string): { block: string; settings: Record<string, string>; edge: string; commands: string[] } {
  const block = codeBlocks(readme, 'sh').find((text) => text.includes('\nedge status\n'))!
  const [exports, start, alias, ...commands] = block.trim().split('\n') as [string, string, string, ...string[]]
  if (!exports.startsWith('export ') || !/^npm start & sleep \d+$/.test(start)) throw new Error(`not as expected: ${exports}, ${start}`)
  const settings = Object.fromEntries(Array.from(exports.matchAll(/(\w+)=(\$\([^)]*\)|\S+)/g), ([, name, value]) => [name!, value!]))
  return { block, settings, edge: /^alias edge='node (\S+)'$/.exec(alias)?.[1] ?? alias, commands }
}
