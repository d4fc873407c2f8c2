// report.js - a click on a column's head sorts its table; numbers by data-value, texts by themselves.
for (const head of document.querySelectorAll("th")) {
  head.addEventListener("click", () => {
    const table = head.closest("table"), body = table.tBodies[0], column = head.cellIndex;
    const order = head.dataset.order === "1" ? -1 : 1;
    for (const other of table.querySelectorAll("th")) delete other.dataset.order;
    head.dataset.order = order;
    const value = row => { const cell = row.cells[column]; return cell.dataset.value ?? cell.textContent; };
    const compare = (a, b) => {
      const x = value(a), y = value(b);
      if (x === "" || y === "") return x === y ? 0 : x === "" ? 1 : -1;
      return order * (isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y);
    };
    for (const row of [...body.rows].sort(compare)) body.append(row);
  });
}
