"""Operations and bytes of convolutions against counts made by hand."""

from layers import ConvolutionShape


def test_counts_of_a_convolution() -> None:
    layer = ConvolutionShape(in_channels=2, out_channels=5, kernel=3, stride=2, height=6, width=8)
    assert (layer.out_height, layer.out_width, layer.positions) == (3, 4, 12)
    assert layer.operations == 12 * 5 * 2 * 9
    assert layer.load_bytes == 4 * (2 * 6 * 8 + 5 * 2 * 9)
    assert layer.store_bytes == 4 * 12 * 5
    # number 4 of table VI of the multi-path paper: a stride of two reads only what it uses
    layer = ConvolutionShape(256, 512, 1, 2, 136, 240)
    assert (layer.out_height, layer.out_width) == (68, 120)
    assert layer.load_bytes == 4 * (256 * 68 * 120 + 256 * 512)
