"""Tables of annotations: what is read of CSV and of workbooks, and workbooks that were made to do harm."""

import subprocess
import sys
import time
import tracemalloc
import zipfile

import pytest
from miniatures import comma_separated, sheet, text, workbook

from fedannot.apps.importing.layouts import spreadsheet, tables
from fedannot.apps.importing.layouts.tables import read_table
from fedannot.transforms.errors import DataError

ROWS = [["ID", "Name", "Finding"], [1, "1_left.jpg", "drusen"], [2, "", "cataract，glaucoma"]]
READ = [
    {"ID": "1", "Name": "1_left.jpg", "Finding": "drusen"},
    {"ID": "2", "Name": "", "Finding": "cataract，glaucoma"},
]
HEADER = '<row r="1"><c r="A1" t="inlineStr"><is><t>ID</t></is></c></row>'


def cells_of(file, columns):
    return [row.cells for row in read_table(file, columns)]


@pytest.fixture
def openpyxl():
    return pytest.importorskip("openpyxl", reason="the extra fedannot[xlsx] is not installed")


@pytest.fixture
def file(tmp_path):
    return tmp_path / "table.xlsx"


def test_csv_is_read_without_openpyxl(tmp_path):
    comma_separated(tmp_path / "table.csv", ROWS)
    program = (
        "import sys; sys.modules['openpyxl'] = None; from pathlib import Path; "
        "from fedannot.apps.importing.layouts.tables import read_table; "
        f"print([row.cells for row in read_table(Path({str(tmp_path / 'table.csv')!r}), {ROWS[0]})] == {READ!r})"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert finished.stdout.strip() == "True", finished.stderr


def test_a_workbook_without_openpyxl_is_an_error_that_tells_both_ways_out(file, monkeypatch):
    sheet(file, ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        DataError,
        match=r"table\.xlsx: reading \.xlsx needs openpyxl; install it with pip install 'openpyxl>=3\.1', or open it "
        r".* and save it as CSV beside it\.",
    ):
        read_table(file, ["ID"])


def test_first_sheet_of_a_workbook_is_read(openpyxl, file):
    sheet(file, ROWS)
    assert cells_of(file, ["ID", "Name", "Finding"]) == READ


def test_a_workbook_of_another_program_is_read(openpyxl, file):
    """Of openpyxl's own, with a number that has digits behind the point and an empty row."""
    book = openpyxl.Workbook()
    for row in (["ID", "Share"], [], ["a ", 0.25], ["b", None]):
        book.active.append(row)
    book.create_sheet("another").append(["ID"])
    book.save(file)
    assert cells_of(file, ["ID", "Share"]) == [{"ID": "a", "Share": "0.25"}, {"ID": "b", "Share": ""}]
    assert [row.place for row in read_table(file, ["ID"])] == ["row 3", "row 4"]


def test_texts_that_stand_in_the_cells_are_read(openpyxl, file):
    cells = ("".join(f'<c t="inlineStr"><is><t>{text}</t></is></c>' for text in row) for row in (("ID",), ("one",)))
    workbook(file, "<row/>".join(f"<row>{row}</row>" for row in cells))
    assert cells_of(file, ["ID"]) == [{"ID": "one"}]


def test_what_a_formula_gave_counts(openpyxl, file):
    workbook(file, f'{HEADER}<row r="2"><c r="A2"><f>40+2</f><v>42</v></c></row>')
    assert cells_of(file, ["ID"]) == [{"ID": "42"}]


def test_a_sheet_that_says_it_is_smaller_is_read_whole(openpyxl, file):
    rows = '<row r="1"><c r="C1" t="s"><v>0</v></c></row><row r="5"><c r="C5"><v>7</v></c></row>'
    workbook(file, rows, strings="<si><t>ID</t></si>", before='<dimension ref="A1"/>')
    assert cells_of(file, ["ID"]) == [{"ID": "7"}]


@pytest.mark.parametrize("write", [sheet, comma_separated], ids=["xlsx", "csv"])
def test_a_missing_column_is_named_with_those_that_are_there(write, tmp_path, request):
    if write is sheet:
        request.getfixturevalue("openpyxl")
    file = tmp_path / ("table.xlsx" if write is sheet else "table.csv")
    write(file, ROWS)
    with pytest.raises(DataError, match=r"found the columns ID, Name, Finding; expected also Age, Sex\."):
        read_table(file, ["ID", "Age", "Sex"])


@pytest.mark.parametrize("write", [sheet, comma_separated], ids=["xlsx", "csv"])
def test_more_rows_than_any_table_has_are_an_error(write, tmp_path, request, monkeypatch):
    if write is sheet:
        request.getfixturevalue("openpyxl")
    file = tmp_path / ("table.xlsx" if write is sheet else "table.csv")
    write(file, ROWS)
    monkeypatch.setattr(tables, "_MOST_ROWS", 2)
    assert cells_of(file, ["ID"]) == [{"ID": "1"}, {"ID": "2"}]
    monkeypatch.setattr(tables, "_MOST_ROWS", 1)
    with pytest.raises(DataError, match="expected at most 1 rows of annotations, but found more"):
        read_table(file, ["ID"])


def test_a_csv_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "table.csv"
    with file.open("wb") as stream:
        stream.write(b"ID\n")
        stream.truncate(2**40)
    with pytest.raises(DataError, match=r"table\.csv: expected a table of at most \d+ bytes"):
        read_table(file, ["ID"])


def refused(file, reason):
    """That a workbook is refused for a reason, with the way around."""
    with pytest.raises(DataError, match=rf"(?s)table\.xlsx: cannot be read as \.xlsx \(.*{reason}.*save it as CSV"):
        read_table(file, ["ID"])


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ("<row", "not well-formed"),
        ('<row><c t="s"><v>99</v></c></row>', "list index out of range"),
        ('<row><c r="ZZZZ1"><v>1</v></c></row>', "ZZZZ"),
    ],
)
def test_a_damaged_sheet_is_an_error(openpyxl, cells, reason, file):
    workbook(file, cells)
    refused(file, reason)


def test_a_file_that_is_no_workbook_is_an_error(openpyxl, file):
    text(file, "ID")
    refused(file, "not a zip file")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("ID", "1")
    refused(file, "Content_Types")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize(
    "entities",
    ['<!ENTITY e SYSTEM "{secret}">', '<!ENTITY e "many">', '<!ENTITY % p SYSTEM "{secret}"> %p; <!ENTITY e "e">'],
    ids=["of another file", "that stand for a text", "of another file's declarations"],
)
def test_entities_are_refused_in_any_encoding(openpyxl, entities, encoding, tmp_path, file):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    declared = entities.format(secret=secret.as_uri())
    prolog = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE worksheet [{declared}]>'
    strings = (
        f"{prolog}<sst xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><si><t>&e;</t></si></sst>"
    )
    workbook(file, HEADER, more={"xl/sharedStrings.xml": strings.encode(encoding)}.items())
    refused(file, r"xl/sharedStrings\.xml declares a document type")


def peak_bytes_and_seconds(read):
    tracemalloc.start()
    began = time.monotonic()
    try:
        read()
        return tracemalloc.get_traced_memory()[1], time.monotonic() - began
    finally:
        tracemalloc.stop()


def test_a_part_that_unpacks_to_more_than_the_bound_is_not_unpacked(openpyxl, file):
    """A quarter of a gigabyte of spaces, which takes a quarter of a megabyte packed."""
    workbook(file, HEADER)
    with (
        zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive,
        archive.open("xl/worksheets/sheet9.xml", "w", force_zip64=True) as part,
    ):
        for _ in range(2**8):
            part.write(b" " * 2**20)
    peak, _ = peak_bytes_and_seconds(lambda: refused(file, f"larger than {spreadsheet.MOST_BYTES} bytes when unpacked"))
    assert peak < 2**26


def test_a_file_larger_than_the_bound_is_not_read_whole(openpyxl, file):
    with file.open("wb") as stream:
        stream.truncate(2**36)
    peak, _ = peak_bytes_and_seconds(lambda: refused(file, "not a zip file"))
    assert peak < 2**27


def test_a_part_that_hides_its_size_is_cut_off_there(openpyxl, file):
    """The archive says that the texts have 100 bytes; they have a million."""
    strings = f"<sst><si><t>{'A' * 10**6}</t></si></sst>"
    workbook(file, HEADER, more={"xl/sharedStrings.xml": strings}.items())
    content = file.read_bytes()
    size = len(strings).to_bytes(4, "little")
    assert content.count(size) == 2
    file.write_bytes(content.replace(size, (100).to_bytes(4, "little")))
    refused(file, "Bad CRC-32 for file 'xl/sharedStrings.xml'")


def test_rows_without_end_end_at_excels_last_row(openpyxl, file):
    """A row that says it is the 10 ^ 15th, before which all others are missing."""
    workbook(file, f'{HEADER}<row r="2"><c r="A2"><v>1</v></c></row><row r="1000000000000000"><c><v>2</v></c></row>')
    assert cells_of(file, ["ID"]) == [{"ID": "1"}]


def test_many_empty_rows_are_left_out(openpyxl, file):
    """As sheets have them that were formatted to the last row; read with little memory."""
    workbook(file, HEADER + "<row/>" * 10**5 + f'<row r="{2**20}"><c><v>1</v></c></row>')
    began = time.monotonic()
    assert cells_of(file, ["ID"]) == [{"ID": "1"}]
    assert time.monotonic() - began < 120


def test_a_long_text_in_many_cells_counts_every_time(openpyxl, file):
    """A megabyte of text in ten thousand cells would be ten gigabytes when cells are cleared of spaces."""
    cells = '<row><c t="s"><v>0</v></c></row>' * 10**4
    workbook(file, HEADER + cells, strings=f"<si><t xml:space='preserve'>{'A' * 2**20} </t></si>")
    peak, _ = peak_bytes_and_seconds(lambda: refused(file, f"more than {spreadsheet.MOST_CHARACTERS} characters"))
    assert peak < 2**28


def test_columns_far_to_the_right_cost_nothing(openpyxl, file):
    rows = "".join(f'<row r="{row}"><c r="A{row}"><v>{row}</v></c><c r="ZZZ{row}"/></row>' for row in range(2, 5000))
    workbook(file, HEADER + rows)
    peak, _ = peak_bytes_and_seconds(lambda: read_table(file, ["ID"]))
    # 5000 rows of 18,278 cells would be 700 megabytes.
    assert peak < 2**26


@pytest.mark.parametrize("text", ["a;b\r\n1,5;x\r\n", "a\tb\n1,5\tx\n", "sep=|\na|b\n1,5|x\n", 'a,b\n"1,5",x\n'])
def test_tables_of_spreadsheet_programs_are_read_whatever_parts_their_cells(tmp_path, text):
    (tmp_path / "table.csv").write_bytes(text.encode("utf-8-sig"))
    assert cells_of(tmp_path / "table.csv", ["a", "b"]) == [{"a": "1,5", "b": "x"}]


def test_a_column_that_is_there_twice_and_a_quotation_that_does_not_end_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("ID;ID;Name\n1;2;a\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"a\.csv: found several columns ID; expected one of each name"):
        read_table(file, ["ID", "Name"])
    assert cells_of(file, ["Name"]) == [{"Name": "a"}]
    file.write_text('ID;Name\n1;"a\n2;b\n', encoding="utf-8")
    with pytest.raises(
        DataError, match=r"a\.csv: the row that begins in line 2 cannot be read as CSV .*; look for a quotation mark"
    ):
        read_table(file, ["ID", "Name"])


@pytest.mark.parametrize("begin", ["", "sep=,\r\n"], ids=["plain", "with its mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_row_is_named_by_the_line_in_which_a_person_finds_it(tmp_path, begin, end):
    """Beside cells with several lines, empty lines and rows without text."""
    if end == "\r" and begin:
        begin = "sep=,\n"
    file = tmp_path / "a.csv"
    lines = ['"I', 'D",Name', '1,"a', "", 'b"', "", ",", "2,c", '"3', '",d', "4,e"]
    file.write_bytes((begin + end.join([*lines, ""])).encode("utf-8-sig"))
    rows = read_table(file, ["Name"])
    assert [row.cells["Name"] for row in rows] == ["a\n\nb", "c", "d", "e"]
    content = file.read_text(encoding="utf-8").splitlines()
    starts = [content[int(row.place.removeprefix("line ")) - 1] for row in rows]
    assert starts == ['1,"a', "2,c", '"3', "4,e"]
