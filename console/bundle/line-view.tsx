import { formatNumber } from '../format.ts'
import { useScrollHints } from '../parts/scroll-hints.ts'
import { useVisibleRows } from '../parts/visible-rows.ts'
import { printable } from '../printable.ts'
import type { TextLine, TextLines } from './text-lines.ts'

/** Must match the row height in bundle-view.css. */
const ROW_PX = 20

interface LineViewProps {
  /** Describes the text to screen readers. */
  readonly label: string
  readonly text: TextLines
  /** Whether the rows are those of a difference, with line numbers of both texts. */
  readonly isDifference?: boolean
}

/** Shows a text of any length. Only the visible lines and some around them are in the page. */
export function LineView({ label, text: { lines, width, lastNumber, isCut }, isDifference = false }: LineViewProps) {
  const { ref: frame, isWide } = useScrollHints<HTMLDivElement>()
  const { first, last, look } = useVisibleRows(frame, lines.length, ROW_PX)
  const digits = String(lastNumber).length
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what can be scrolled must be reachable by keyboard */}
      {/* biome-ignore lint/a11y/useSemanticElements: a fieldset is for controls, and a section would be a landmark */}
      <div role="group" class="table lines" aria-label={label} tabIndex={0} ref={frame} onScroll={look}>
        <div style={{ height: `${lines.length * ROW_PX}px`, minWidth: `calc(${width + (digits + 2) * (isDifference ? 2 : 1)}ch + 40px)` }}>
          <div style={{ height: `${first * ROW_PX}px` }} />
          {lines.slice(first, last).map((line, i) => (
            <Line key={first + i} line={line} digits={digits} isDifference={isDifference} />
          ))}
        </div>
      </div>
      {isWide && <p class="sideways">Scroll sideways for whole lines.</p>}
      {isCut && (
        <p class="sideways">Only the first {formatNumber(lines.length)} lines are shown: `edge bundle --text` prints all of them.</p>
      )}
    </>
  )
}

interface LineProps {
  readonly line: TextLine
  readonly digits: number
  readonly isDifference: boolean
}

function Line({ line: { kind, text, before, after }, digits, isDifference }: LineProps) {
  if (kind === '…') return <div class="line left-out">⋯</div>
  const number = (value: number | undefined) => <span class="line-number">{String(value ?? '').padStart(digits)}</span>
  const shown = text.split('\t').map(printable).join('\t')
  return (
    <div class={kind === '+' ? 'line added' : kind === '-' ? 'line removed' : 'line'}>
      {isDifference && number(before)}
      {number(after)}
      {isDifference && <span class="sign">{kind === '-' ? '−' : kind}</span>}
      {kind === '+' ? <ins>{shown}</ins> : kind === '-' ? <del>{shown}</del> : <span>{shown}</span>}
    </div>
  )
}
