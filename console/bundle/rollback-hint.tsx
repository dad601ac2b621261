import type { BundleReportJson, BundleSourceJson } from '../../src/admin/api/instance-types.ts'
import { Command } from '../parts/command.tsx'
import { Panel } from '../parts/panel.tsx'
import { printable } from '../printable.ts'
import type { KnownBundle } from './bundle-list.tsx'

interface RollbackHintProps {
  readonly bundle: KnownBundle
  readonly report: BundleReportJson
}

/** Says how to go back to the policies of an earlier bundle. This page cannot publish bundles. */
export function RollbackHint({ bundle: { version, format, has_text: hasText }, report: { bundle: active, source } }: RollbackHintProps) {
  if (active === null || source === null) return null
  const next = nextVersion(active.version, source.refused?.version ?? '0')
  const file = `bundle-${next}.${format}`
  return (
    <Panel title={`Go back to the policies of version ${version}`}>
      {hasText ? (
        <>
          <Command label={`Command that goes back to version ${version}`} text={commandText(source, version, file)} />
          <Remaining source={source} version={version} next={next} file={file} />
        </>
      ) : (
        <p>
          edge does not keep the text of this version any more. Take the old policies from where you keep your bundles, and publish them
          with bundle_version {next}.
        </p>
      )}
    </Panel>
  )
}

interface RemainingProps {
  readonly source: BundleSourceJson
  readonly version: string
  readonly next: string
  readonly file: string
}

/** Says what the command does, and what has to be done after it. */
function Remaining({ source, version, next, file }: RemainingProps) {
  const { path, url, signature_required: isSigned } = source
  const place = <code>{printable(path ?? url ?? '')}</code>
  return (
    <ul class="remaining">
      {isSigned || url !== null ? (
        <>
          <li>
            It writes the policies of version {version} under version {next} to <code>{file}</code>
            {isSigned && ' and signs them; KEY is the file with your private key'}. Nothing is published yet.
          </li>
          <li>
            Then put {isSigned ? 'the file and its signature' : 'the file'} where {place} comes from
            {isSigned && ', because this instance accepts signed bundles only'}.
          </li>
        </>
      ) : (
        <>
          <li>
            It publishes the policies of version {version} under version {next}, and waits until they are active. Run it on the machine of
            the instance, where {place} is; in a fleet with a file on each machine, on each of them.
          </li>
          <li>If a deployment writes this file, commit the text there too. Otherwise the next deployment undoes the rollback.</li>
        </>
      )}
      <li>The command needs EDGE_ADMIN_URL and EDGE_ADMIN_TOKEN.</li>
    </ul>
  )
}

function commandText({ path, url, signature_required: isSigned }: BundleSourceJson, version: string, file: string): string {
  if (isSigned) return `edge rollback --to ${version} > ${file} && edge sign --key KEY ${file}`
  if (url !== null || path === null) return `edge rollback --to ${version} > ${file}`
  return `edge rollback --to ${version} --publish ${shellWord(path)} --reason 'why'`
}

/** Above what is active, and above what the source offers: other instances may have accepted that. */
function nextVersion(active: string, offered: string): string {
  const [one, other] = [BigInt(active), BigInt(offered)]
  return ((one > other ? one : other) + 1n).toString()
}

/** Returns a path as a shell reads it, or a placeholder if the path has characters that cannot be seen. */
function shellWord(path: string): string {
  if (printable(path) !== path) return 'FILE'
  return /^[\w./:@%+=,-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`
}
